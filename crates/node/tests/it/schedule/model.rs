//! The model: a chain as a plain map of coins, and what is wrong with the blocks that a chain must refuse.

use primitives::{Amount, BlockHash, CoinKey, Height, OutPoint, Txid, coin};
use std::collections::BTreeMap;

/// A coin of the model.
#[derive(Clone)]
pub(super) struct Coin {
    pub(super) height: u32,
    pub(super) coinbase: bool,
    pub(super) value: u64,
    pub(super) script: Vec<u8>,
}

pub(super) type UtxoSet = BTreeMap<OutPoint, Coin>;

/// A chain as it grows: what is spendable in it, and what was.
#[derive(Clone)]
pub(crate) struct Branch {
    pub(crate) tip: BlockHash,
    pub(super) height: u32,
    pub(super) set: UtxoSet,
    pub(super) spent: Vec<(OutPoint, Coin)>,
    pub(super) made: Vec<(Txid, Vec<u8>)>,
}

impl Branch {
    /// The chain of the genesis block, whose coinbase is no coin.
    pub(super) fn new(genesis: BlockHash) -> Branch {
        Branch { tip: genesis, height: 0, set: UtxoSet::new(), spent: vec![], made: vec![] }
    }

    /// The UTXO set as the tables should hold it.
    pub(super) fn table(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.set
            .iter()
            .map(|(outpoint, made)| {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                key.extend_from_slice(CoinKey::new(outpoint).as_bytes());
                let code = coin::code(Height::new(made.height), made.coinbase);
                coin::put_coin(&mut value, code, Amount(made.value as i64), &made.script);
                (key, value)
            })
            .collect()
    }
}

/// What is wrong with a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Flaw {
    None,
    /// Spends a coin that an earlier block of its chain spent.
    SpentBefore,
    /// Spends a coin twice.
    SpentTwice,
    /// Spends a coin that never was.
    NeverMade,
    /// Takes more than there is.
    TooMuch,
    /// Has a transaction again that an earlier block has, whose coins may be there.
    MadeAgain,
    /// Has a transaction without outputs.
    NoOutputs,
    /// Its coinbase says another height.
    OtherHeight,
    /// Its body has another Merkle root.
    OtherBody,
    /// Its coinbase takes more than it may.
    TooMuchReward,
    /// A script says no.
    ScriptFails,
}

pub(super) const FLAWS: [Flaw; 10] = [
    Flaw::SpentBefore,
    Flaw::SpentTwice,
    Flaw::NeverMade,
    Flaw::TooMuch,
    Flaw::MadeAgain,
    Flaw::NoOutputs,
    Flaw::OtherHeight,
    Flaw::OtherBody,
    Flaw::TooMuchReward,
    Flaw::ScriptFails,
];

impl Flaw {
    /// Whether a verdict gives the reason, in Core's words.
    pub(super) fn says(self, verdict: &str) -> bool {
        let want = match self {
            Flaw::None => unreachable!("it is never refused"),
            // Where one of its coins is unspent, the second judgement looks for that first.
            Flaw::MadeAgain if verdict.contains("bad-txns-BIP30") => return true,
            Flaw::SpentBefore | Flaw::NeverMade | Flaw::SpentTwice | Flaw::MadeAgain => {
                "bad-txns-inputs-missingorspent"
            }
            Flaw::TooMuch => "bad-txns-in-belowout",
            Flaw::NoOutputs => "bad-txns-vout-empty",
            Flaw::OtherHeight => "bad-cb-height",
            Flaw::OtherBody => "bad-txnmrklroot",
            Flaw::TooMuchReward => "bad-cb-amount",
            Flaw::ScriptFails => "block-script-verify-flag-failed",
        };
        verdict.contains(want)
    }
}
