//! Counts and hashes of the set of coins, as gettxoutsetinfo gives them, from the tables, by all cores.
//!
//! The set is read in 256 shares, by the first byte of the txid. `hash_serialized_3` is one hash over all of them in
//! order, so threads prepare the bytes and one hashes them; MuHash is a product, so every thread has a part.

use crate::fault::Fault;
use crate::locks::{lock, wait};
use crate::options::{SetHash, SetInfo};
use crate::threads;
use primitives::coin::{CoinRef, put_coin_hashed};
use primitives::muhash::{MuHash, Product};
use primitives::{Hash256, OutPoint};
use simd::sha256::Sha256;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use store::chainstate::CoinsView;

/// Shares that may wait for their turn, for each thread.
const SHARES_AHEAD: usize = 2;

#[derive(Default)]
struct Share {
    txouts: u64,
    bogosize: u64,
    total: i64,
    bytes: Vec<u8>,
    product: Option<MuHash>,
}

struct Shares {
    claimed: usize,
    taken: usize,
    done: BTreeMap<usize, Result<Share, store::Fault>>,
}

/// Goes through all coins with `par` threads. Height and best block are the caller's to fill in.
///
/// # Errors
///
/// A damaged table or coin, or what the system says.
pub(crate) fn set_info(view: &CoinsView, hash: SetHash, par: usize) -> Result<SetInfo, Fault> {
    let shares = Mutex::new(Shares { claimed: 0, taken: 0, done: BTreeMap::new() });
    let changed = Condvar::new();
    let ahead = par.max(1) * SHARES_AHEAD;
    let worker = || {
        loop {
            let share = {
                let mut all = lock(&shares);
                while all.claimed < 256 && all.claimed >= all.taken + ahead {
                    all = wait(&changed, all);
                }
                if all.claimed >= 256 {
                    return;
                }
                all.claimed += 1;
                all.claimed - 1
            };
            let result = read_share(view, share as u8, hash);
            lock(&shares).done.insert(share, result);
            changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for n in 0..par.max(1) {
            if let Err(fault) = threads::spawn(scope, format!("coins.{n:02}"), worker) {
                lock(&shares).claimed = 256;
                changed.notify_all();
                return Err(fault);
            }
        }
        let mut info = SetInfo::default();
        let (mut sha, mut product) = (Sha256::new(), MuHash::new());
        let mut fault = None;
        for next in 0..256 {
            let share = {
                let mut all = lock(&shares);
                loop {
                    if let Some(share) = all.done.remove(&next) {
                        all.taken += 1;
                        break share;
                    }
                    all = wait(&changed, all);
                }
            };
            changed.notify_all();
            match share {
                Ok(share) => {
                    info.txouts += share.txouts;
                    info.bogosize += share.bogosize;
                    info.total_amount += share.total;
                    sha.update(&share.bytes);
                    share.product.iter().for_each(|part| product.combine(part));
                }
                Err(why) => fault = fault.or(Some(why)),
            }
        }
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        info.hash = match hash {
            SetHash::None => None,
            SetHash::Serialized => Some(("hash_serialized_3", Hash256(simd::sha256::sha256(&sha.finalize())))),
            SetHash::Muhash => Some(("muhash", Hash256(product.finalize()))),
        };
        info.disk_size = view.table_bytes();
        Ok(info)
    })
}

fn read_share(view: &CoinsView, first: u8, hash: SetHash) -> Result<Share, store::Fault> {
    let mut share = Share::default();
    let mut product = (hash == SetHash::Muhash).then(Product::new);
    let mut coins = view.coins_between(first, first)?;
    let mut element = Vec::new();
    // Coins of one transaction come in the order of VARINT bytes; the hash wants the order of numbers.
    let mut group: Vec<(OutPoint, Vec<u8>)> = Vec::new();
    while let Some((outpoint, stored)) = coins.next_coin()? {
        let coin = CoinRef::decode(stored).map_err(|why| {
            let found = format!("{outpoint} with bytes that do not deserialize: {why}");
            let advice = "Rebuild the coins: ffwd reindex --chainstate-only";
            store::Fault::new(store::FaultKind::Damaged, view.path(), "coins", found, advice)
        })?;
        share.txouts += 1;
        share.bogosize += 50 + coin.script.script_bytes() as u64;
        share.total = share.total.saturating_add(coin.value.0);
        match hash {
            SetHash::None => {}
            SetHash::Muhash => {
                element.clear();
                put_coin_hashed(&mut element, &outpoint, &coin);
                product.as_mut().expect("it is wanted").push(&element);
            }
            SetHash::Serialized if outpoint.vout < 128 && group.is_empty() => {
                // One byte of VARINT: in order already, unless greater numbers of the transaction came before.
                put_coin_hashed(&mut share.bytes, &outpoint, &coin);
            }
            SetHash::Serialized => {
                if group.first().is_some_and(|(other, _)| other.txid != outpoint.txid) {
                    close(&mut group, &mut share.bytes);
                }
                let mut bytes = Vec::new();
                put_coin_hashed(&mut bytes, &outpoint, &coin);
                group.push((outpoint, bytes));
            }
        }
    }
    close(&mut group, &mut share.bytes);
    share.product = product.map(Product::finish);
    Ok(share)
}

fn close(group: &mut Vec<(OutPoint, Vec<u8>)>, out: &mut Vec<u8>) {
    group.sort_unstable();
    group.drain(..).for_each(|(_, bytes)| out.extend_from_slice(&bytes));
}
