//! The options about the optional indexes, and the commands that look things up in them.

use super::Common;
use crate::options::Place;
use crate::options::given::Given;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use node::jobs::BlockId;
use node::options::IndexKind;
use primitives::{BlockHash, Height, OutPoint, Txid};

/// Which indexes are kept with the chain.
pub(crate) type Flags = Given<{ Place::Indexes as u8 }>;

#[derive(Args, Clone, Debug)]
pub(crate) struct Index {
    /// Build this index (repeatable) [default: those that bitcoin.conf asks for, else those that are there]
    #[arg(long, value_name = "NAME", value_parser = kind_parser())]
    pub(crate) only: Vec<IndexKind>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Tx {
    /// Id of the transaction
    #[arg(value_name = "TXID", value_parser = txid)]
    pub(crate) txid: Txid,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Filter {
    /// The block
    #[arg(value_name = "HASH|HEIGHT", value_parser = block)]
    pub(crate) block: BlockId,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Spender {
    /// The output
    #[arg(value_name = "TXID:N", value_parser = outpoint)]
    pub(crate) outpoint: OutPoint,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SilentPayments {
    /// The block
    #[arg(value_name = "HASH|HEIGHT", value_parser = block)]
    pub(crate) block: BlockId,
    /// Omit transactions whose taproot outputs are all below this value
    #[arg(long, value_name = "SATOSHI", default_value_t = 0)]
    pub(crate) dust_limit: u64,
    /// Leave out transactions whose taproot outputs are all spent (cut-through)
    #[arg(long)]
    pub(crate) unspent: bool,
    /// Also show id and taproot outputs of each transaction, read from the block
    #[arg(long)]
    pub(crate) outputs: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn kind_parser() -> impl TypedValueParser<Value = IndexKind> {
    PossibleValuesParser::new(IndexKind::ALL.map(IndexKind::name)).map(|name| {
        let kind = IndexKind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.expect("only names of indexes are possible values")
    })
}

fn txid(text: &str) -> Result<Txid, String> {
    Txid::from_display(text).ok_or_else(|| format!("{text:?} is not a txid: expected 64 hexadecimal digits"))
}

fn outpoint(text: &str) -> Result<OutPoint, String> {
    let (id, vout) = text.split_once(':').ok_or_else(|| format!("{text:?} has no colon: expected TXID:N"))?;
    let vout = vout.parse().map_err(|why| format!("the number of the output in {text:?}: {why}"))?;
    Ok(OutPoint { txid: txid(id)?, vout })
}

/// A block, by its hash or its height in the active chain.
pub(crate) fn block(text: &str) -> Result<BlockId, String> {
    if let Some(hash) = BlockHash::from_display(text) {
        return Ok(BlockId::Hash(hash));
    }
    let why = || format!("{text:?} is neither a height nor a block hash of 64 hexadecimal digits");
    let height = text.parse().ok().filter(|&height: &u32| height <= i32::MAX.unsigned_abs());
    height.map(|height| BlockId::Height(Height::new(height))).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::super::tests::parse;
    use super::*;

    #[test]
    fn index_commands_parse() {
        let id = "11".repeat(32);
        let Ok(Command::Index(got)) = parse("index --only txindex --only coinstatsindex") else { panic!("index") };
        assert_eq!(got.only, [IndexKind::Tx, IndexKind::CoinStats]);
        let Ok(Command::Spender(got)) = parse(&format!("spender {id}:7")) else { panic!("spender") };
        assert_eq!((got.outpoint.vout, got.outpoint.txid), (7, Txid::from_bytes([0x11; 32])));
        let Ok(Command::Silentpayments(got)) = parse("silentpayments 200 --dust-limit 546 --unspent") else {
            panic!("silentpayments")
        };
        assert_eq!((got.block, got.dust_limit), (BlockId::Height(Height::new(200)), 546));
        assert!(got.unspent && !got.outputs);
        let Ok(Command::Filter(got)) = parse("filter 200") else { panic!("filter") };
        assert_eq!(got.block, BlockId::Height(Height::new(200)));
        let Ok(Command::Filter(got)) = parse(&format!("filter {id}")) else { panic!("filter") };
        assert_eq!(got.block, BlockId::Hash(BlockHash::from_bytes([0x11; 32])));
        let line = "reindex --txindex=1 --blockfilterindex=basic --coinstatsindex=0";
        let Ok(Command::Reindex(got)) = parse(line) else { panic!("reindex") };
        let flags = IndexKind::ALL.map(|kind| got.writing.indexes.one(kind.name()));
        assert_eq!(flags, [Some(true), Some(true), None, Some(false), None]);
        for (line, want) in [
            ("index --only filters", "blockfilterindex"),
            ("tx 12", "is not a txid"),
            ("spender 12", "has no colon"),
            (&format!("spender {id}:-1"), "number of the output"),
            ("filter high", "neither a height nor a block hash"),
            ("reindex --blockfilterindex=extended", "Unknown -blockfilterindex value extended."),
        ] {
            let why = parse(line).expect_err(line).to_string();
            assert!(why.contains(want), "{line}: {why}");
        }
    }
}
