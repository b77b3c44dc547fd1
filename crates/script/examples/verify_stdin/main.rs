//! Verdicts for cases on standard input, or for cases made here; an oracle beside it says whether they are right.
//!
//! `verify_stdin < CASES` prints a verdict for each line. `verify_stdin --generate SEED COUNT` makes cases, the same
//! for the same seed, and prints each with its verdict in front. `verify_stdin --corpus DIRECTORY COUNT` writes cases as
//! files for `script::fuzz_script` to start from. `tests/kernel_scripts.py` compares them with
//! libbitcoinkernel's.
//!
//! A case: `flags input coins transaction`, where flags are hexadecimal bits (libbitcoinkernel's), input is a number,
//! coins are `value:script` with commas between, one for each input, and the rest is hexadecimal. A verdict: `OK`,
//! the name of an error, or `PARSE` for a transaction that does not parse or does not fit its coins.

#![allow(clippy::unwrap_used, reason = "it serves tests")]

#[path = "../../tests/it/assembler.rs"]
#[allow(dead_code)]
mod assembler;
mod chained;
mod generate;
mod place;
mod signed;
#[path = "../../tests/it/wallet.rs"]
#[allow(dead_code)]
mod wallet;

use primitives::{Amount, Tables, hex};
use script::lanes::Compared;
use script::verify::verify_by_interpreter;
use script::{
    Batch, Check, Deferred, Flags, Immediate, OneByOne, Precomputed, Scratch, SpentOutput, verify, verify_all,
};
use std::io::{BufRead, BufWriter, Write};

/// An input, the transaction around it, and the coins that it spends.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) flags: u32,
    pub(crate) input: usize,
    pub(crate) coins: Vec<(i64, Vec<u8>)>,
    pub(crate) tx: Vec<u8>,
}

impl Case {
    fn from_line(line: &str) -> Option<Case> {
        let mut fields = line.split(' ');
        let flags = u32::from_str_radix(fields.next()?, 16).ok()?;
        let input = fields.next()?.parse().ok()?;
        let coin = |text: &str| {
            let (value, script) = text.split_once(':')?;
            Some((value.parse().ok()?, hex::decode(script)?))
        };
        let coins = fields.next()?.split(',').map(coin).collect::<Option<_>>()?;
        Some(Case { flags, input, coins, tx: hex::decode(fields.next()?)? })
    }

    fn to_line(&self) -> String {
        let coins: Vec<String> =
            self.coins.iter().map(|(value, script)| format!("{value}:{}", hex::encode(script))).collect();
        format!("{:x} {} {} {}", self.flags, self.input, coins.join(","), hex::encode(&self.tx))
    }

    /// The case as `script::fuzz_script` reads it, which has one coin for all inputs; `None` where they differ.
    fn to_fuzz_bytes(&self) -> Option<Vec<u8>> {
        let [(value, script)] = &self.coins[..] else { return None };
        let mut bytes = self.flags.to_le_bytes().to_vec();
        bytes.extend(value.to_le_bytes());
        bytes.extend(u16::try_from(script.len()).ok()?.to_le_bytes());
        bytes.extend(script);
        bytes.extend(&self.tx);
        Some(bytes)
    }

    /// The verdict, which every way must give.
    fn verdict(&self, scratch: &mut Scratch) -> &'static str {
        let mut tables = Tables::new();
        let Ok(tx) = tables.parse_transaction(&self.tx) else { return "PARSE" };
        if tx.bytes().len() != self.tx.len() || tx.input_count() != self.coins.len() || self.input >= tx.input_count() {
            return "PARSE";
        }
        let named = Flags::NAMES.iter().enumerate().filter(|(at, _)| self.flags >> at & 1 == 1);
        let flags = named.fold(Flags::NONE, |flags, (_, &(_, flag))| flags | flag);
        let spent: Vec<SpentOutput<'_>> =
            self.coins.iter().map(|(value, script)| SpentOutput { value: Amount(*value), script }).collect();
        let tx = Precomputed::new(tx, &spent);
        let verdict = verify(&tx, self.input, flags, &mut Immediate, scratch);
        let plain = verify_by_interpreter(&tx, self.input, flags, &mut Immediate, scratch);
        assert_eq!(verdict, plain, "{}", self.to_line());
        let inputs = [(&tx, self.input)];
        for batch in [&OneByOne as &dyn Batch, &Compared, &Timid] {
            let later = verify_all(inputs, flags, batch, &mut Deferred::with_pairs(), scratch);
            assert_eq!(later.map_err(|(_, why)| why), verdict, "{}", self.to_line());
        }
        verdict.map_or_else(|why| why.name(), |()| "OK")
    }
}

/// A batch that cannot tell about half of what holds: verdicts must not depend on it.
struct Timid;

impl Batch for Timid {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let parity = |check: &Check| match check {
            Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. } => signature[31],
            Check::Tweak { tweak, .. } => tweak[31],
        };
        checks.iter().map(|check| parity(check) & 1 == 0 && check.holds()).collect()
    }
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut scratch = Scratch::new();
    if let [word, seed, count] = &words[..]
        && word == "--generate"
    {
        let mut generator = generate::Generator::new(seed.parse().expect("a seed is a number"));
        for _ in 0..count.parse::<u64>().expect("a count is a number") {
            let case = generator.case();
            writeln!(out, "{} {}", case.verdict(&mut scratch), case.to_line())?;
        }
        return Ok(());
    }
    if let [word, directory, count] = &words[..]
        && word == "--corpus"
    {
        std::fs::create_dir_all(directory)?;
        let count = count.parse().expect("a count is a number");
        let mut generator = generate::Generator::new(0);
        let seeds = std::iter::from_fn(|| Some(generator.case())).filter_map(|case| case.to_fuzz_bytes());
        for (number, seed) in seeds.take(count).enumerate() {
            std::fs::write(format!("{directory}/{number:05}"), seed)?;
        }
        return Ok(());
    }
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let verdict = Case::from_line(line.trim()).map_or("not a case", |case| case.verdict(&mut scratch));
        writeln!(out, "{verdict}")?;
    }
    Ok(())
}
