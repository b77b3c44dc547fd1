//! Parser of descriptors, with Core's results and messages.
//!
//! Source: Bitcoin Core b88bffe, script/descriptor.cpp, `ParseScript`, `CheckChecksum`; script/parsing.cpp.

use super::checksum::{CHECKSUM_CHARS, checksum};
use super::key::{Key, KeyPlace, bytes_of, parse_key};
use super::miniscript_text::{self, WitnessScript};
use crate::output::Prefixes;

/// Maximum number of keys in `multi()`.
const MULTI_KEYS_MAX: usize = 20;
/// Maximum number of keys in `multi_a()`.
const MULTI_A_KEYS_MAX: usize = 999;
/// Maximum number of keys in a top-level `multi()`.
const BARE_KEYS_MAX: usize = 3;
/// Maximum length of a script in P2SH: it is pushed.
const P2SH_BYTES_MAX: usize = 520;
/// Maximum depth of a tree in `tr()`.
const TREE_DEPTH_MAX: usize = 128;

/// A descriptor.
#[derive(Clone, Debug)]
pub(super) enum Descriptor {
    Pk(Key),
    /// `pk()` inside `tr()`: a key of 32 bytes.
    PkX(Key),
    Pkh(Key),
    Combo(Key),
    Wpkh(Key),
    Multi {
        threshold: u32,
        keys: Vec<Key>,
        is_sorted: bool,
    },
    MultiA {
        threshold: u32,
        keys: Vec<Key>,
        is_sorted: bool,
    },
    Sh(Box<Descriptor>),
    Wsh(Box<Descriptor>),
    /// The inner key, and scripts with their depths, from left to right.
    Tr(Key, Vec<(u8, Descriptor)>),
    RawTr(Key),
    Address(Vec<u8>),
    Raw(Vec<u8>),
    /// `unused()`: has no script.
    Unused(Key),
    Miniscript(WitnessScript),
}

/// Parses a descriptor; several if its keys have multipath steps.
///
/// # Errors
///
/// Core's message; as in Core, it is empty for text after the descriptor.
pub(super) fn parse(text: &str, prefixes: &Prefixes) -> Result<Vec<Descriptor>, String> {
    let mut rest = without_checksum(text)?;
    let found = parse_script(&mut rest, KeyPlace::Top, prefixes)?;
    if rest.is_empty() { Ok(found) } else { Err(String::new()) }
}

fn without_checksum(text: &str) -> Result<&str, String> {
    let parts: Vec<&str> = text.split('#').collect();
    let (body, given) = match parts[..] {
        [body] => (body, None),
        [body, given] => (body, Some(given)),
        _ => return Err("Multiple '#' symbols".into()),
    };
    if let Some(given) = given.filter(|given| given.len() != CHECKSUM_CHARS) {
        return Err(format!("Expected 8 character checksum, not {} characters", given.len()));
    }
    let sum = checksum(body.as_bytes()).ok_or("Invalid characters in payload")?;
    let sum = String::from_utf8_lossy(&sum);
    match given {
        Some(given) if given != sum => {
            Err(format!("Provided checksum '{given}' does not match computed checksum '{sum}'"))
        }
        _ => Ok(body),
    }
}

/// Splits off an expression: up to a comma or a closing bracket that it did not open.
fn take_expression<'t>(text: &mut &'t str) -> &'t str {
    let mut level = 0;
    let end = text.bytes().position(|char| {
        match char {
            b'(' | b'{' => level += 1,
            b')' | b'}' if level > 0 => level -= 1,
            b')' | b'}' | b',' if level == 0 => return true,
            _ => {}
        }
        false
    });
    let (taken, rest) = text.split_at(end.unwrap_or(text.len()));
    *text = rest;
    taken
}

/// What is inside `name(..)`.
fn inside<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

fn take_char(text: &mut &str, char: char) -> bool {
    let rest = text.strip_prefix(char);
    *text = rest.unwrap_or(text);
    rest.is_some()
}

fn first_char(text: &str) -> char {
    text.chars().next().unwrap_or(' ')
}

type Parsed = Result<Vec<Descriptor>, String>;

fn parse_script(text: &mut &str, place: KeyPlace, prefixes: &Prefixes) -> Parsed {
    let expression = take_expression(text);
    let is_outside = matches!(place, KeyPlace::Top | KeyPlace::P2sh | KeyPlace::P2wsh);
    let single = |inner: &str, at: KeyPlace, name: &str, make: fn(Key) -> Descriptor| -> Parsed {
        let keys = parse_key(inner, at, prefixes).map_err(|why| format!("{name}(): {why}"))?;
        Ok(keys.into_iter().map(make).collect())
    };
    let top_only = |name: &str| Err(format!("Can only have {name} at top level"));
    let Some((name, _)) = expression.split_once('(').filter(|_| expression.ends_with(')')) else {
        return parse_miniscript(expression, place, prefixes);
    };
    let inner = inside(expression, name).unwrap_or_default();
    match (name, place) {
        ("pk", _) => single(inner, place, "pk", if place == KeyPlace::P2tr { Descriptor::PkX } else { Descriptor::Pk }),
        ("pkh", _) if is_outside => single(inner, place, "pkh", Descriptor::Pkh),
        ("combo", KeyPlace::Top) => single(inner, place, "combo", Descriptor::Combo),
        ("combo", _) => top_only("combo()"),
        ("multi" | "sortedmulti", _) if is_outside => parse_multi(inner, name, place, prefixes),
        ("multi_a" | "sortedmulti_a", KeyPlace::P2tr) => parse_multi(inner, name, place, prefixes),
        ("multi" | "sortedmulti", _) => {
            Err("Can only have multi/sortedmulti at top level, in sh(), or in wsh()".into())
        }
        ("multi_a" | "sortedmulti_a", _) => Err("Can only have multi_a/sortedmulti_a inside tr()".into()),
        ("wpkh", KeyPlace::Top | KeyPlace::P2sh) => single(inner, KeyPlace::P2wpkh, "wpkh", Descriptor::Wpkh),
        ("wpkh", _) => Err("Can only have wpkh() at top level or inside sh()".into()),
        ("sh", KeyPlace::Top) => parse_wrapped(inner, KeyPlace::P2sh, Descriptor::Sh, prefixes),
        ("sh", _) => top_only("sh()"),
        ("wsh", KeyPlace::Top | KeyPlace::P2sh) => parse_wrapped(inner, KeyPlace::P2wsh, Descriptor::Wsh, prefixes),
        ("wsh", _) => Err("Can only have wsh() at top level or inside sh()".into()),
        ("addr", KeyPlace::Top) => {
            let script = prefixes.decode(inner).map_err(|_| "Address is not valid")?;
            Ok(vec![Descriptor::Address(script)])
        }
        ("addr", _) => top_only("addr()"),
        ("tr", KeyPlace::Top) => parse_tr(inner, prefixes),
        ("tr", _) => top_only("tr"),
        ("rawtr", KeyPlace::Top) => {
            let mut rest = inner;
            let key = take_expression(&mut rest);
            if !rest.is_empty() {
                return Err("rawtr(): only one key expected.".into());
            }
            single(key, KeyPlace::P2tr, "rawtr", Descriptor::RawTr)
        }
        ("rawtr", _) => top_only("rawtr"),
        ("unused", KeyPlace::Top) => parse_unused(inner, prefixes),
        ("unused", _) => top_only("unused"),
        ("raw", KeyPlace::Top) => {
            let script = bytes_of(inner).ok_or("Raw script is not hex")?;
            Ok(vec![Descriptor::Raw(script)])
        }
        ("raw", _) => top_only("raw()"),
        _ => parse_miniscript(expression, place, prefixes),
    }
}

fn parse_wrapped(inner: &str, place: KeyPlace, wrap: fn(Box<Descriptor>) -> Descriptor, prefixes: &Prefixes) -> Parsed {
    let mut rest = inner;
    let found = parse_script(&mut rest, place, prefixes)?;
    if !rest.is_empty() {
        return Err(String::new());
    }
    Ok(found.into_iter().map(|inner| wrap(Box::new(inner))).collect())
}

fn parse_unused(inner: &str, prefixes: &Prefixes) -> Parsed {
    let mut rest = inner;
    let key = take_expression(&mut rest);
    if !rest.is_empty() {
        return Err("unused(): only one key expected".into());
    }
    let keys = parse_key(key, KeyPlace::Top, prefixes)?;
    if keys.iter().any(Key::is_ranged) {
        return Err("unused(): key cannot be ranged".into());
    }
    Ok(keys.into_iter().map(Descriptor::Unused).collect())
}

/// One choice of each list; lists of one choice are repeated, all others must have the same length.
fn transpose<T: Clone>(lists: Vec<Vec<T>>, mismatch: &str) -> Result<Vec<Vec<T>>, String> {
    let count = lists.iter().map(Vec::len).max().unwrap_or(1);
    if lists.iter().any(|list| list.len() != 1 && list.len() != count) {
        return Err(mismatch.into());
    }
    Ok((0..count).map(|at| lists.iter().map(|list| list[at.min(list.len() - 1)].clone()).collect()).collect())
}

fn parse_multi(inner: &str, name: &str, place: KeyPlace, prefixes: &Prefixes) -> Parsed {
    let mut rest = inner;
    let text = take_expression(&mut rest);
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let threshold = is_number.then(|| text.parse::<u32>().ok()).flatten();
    let threshold = threshold.ok_or_else(|| format!("Multi threshold '{text}' is not valid"))?;
    let mut lists = Vec::new();
    let mut script_bytes = 0;
    while !rest.is_empty() {
        if !take_char(&mut rest, ',') {
            return Err(format!("Multi: expected ',', got '{}'", first_char(rest)));
        }
        let keys = parse_key(take_expression(&mut rest), place, prefixes).map_err(|why| format!("Multi: {why}"))?;
        script_bytes += keys[0].bytes() + 1;
        lists.push(keys);
    }
    let is_a = name.ends_with("_a");
    let count = lists.len();
    let (what, most) = if is_a { ("multi_a", MULTI_A_KEYS_MAX) } else { ("multisig", MULTI_KEYS_MAX) };
    if count == 0 || count > most {
        return Err(format!("Cannot have {count} keys in {what}; must have between 1 and {most} keys, inclusive"));
    }
    if threshold < 1 {
        return Err(format!("Multisig threshold cannot be {threshold}, must be at least 1"));
    }
    if threshold as usize > count {
        return Err(format!(
            "Multisig threshold cannot be larger than the number of keys; threshold is {threshold} but only {count} keys specified"
        ));
    }
    if place == KeyPlace::Top && count > BARE_KEYS_MAX {
        return Err(format!("Cannot have {count} pubkeys in bare multisig; only at most 3 pubkeys"));
    }
    if place == KeyPlace::P2sh && script_bytes + 3 > P2SH_BYTES_MAX {
        let bytes = script_bytes + 3;
        return Err(format!("P2SH script is too large, {bytes} bytes is larger than {P2SH_BYTES_MAX} bytes"));
    }
    let is_sorted = name.starts_with("sorted");
    let choices = transpose(lists, "multi(): Multipath derivation paths have mismatched lengths")?;
    let make = |keys| match is_a {
        true => Descriptor::MultiA { threshold, keys, is_sorted },
        false => Descriptor::Multi { threshold, keys, is_sorted },
    };
    Ok(choices.into_iter().map(make).collect())
}

fn parse_tr(inner: &str, prefixes: &Prefixes) -> Parsed {
    let mut rest = inner;
    let keys = parse_key(take_expression(&mut rest), KeyPlace::P2tr, prefixes).map_err(|why| format!("tr(): {why}"))?;
    let mut depths = Vec::new();
    let mut leaves = Vec::new();
    if !rest.is_empty() {
        if !take_char(&mut rest, ',') {
            return Err(format!("tr: expected ',', got '{}'", first_char(rest)));
        }
        (depths, leaves) = parse_tree(&mut rest, prefixes)?;
        if !rest.is_empty() {
            return Err("tr(): expected ')' after script expression".into());
        }
    }
    let count = leaves.iter().map(Vec::len).max().unwrap_or(1).max(keys.len());
    if leaves.iter().any(|list| list.len() != 1 && list.len() != count) {
        return Err("tr(): Multipath subscripts have mismatched lengths".into());
    }
    if keys.len() > 1 && keys.len() != count {
        return Err("tr(): Multipath internal key mismatches multipath subscripts lengths".into());
    }
    let make = |at: usize| {
        let leaf = |list: &Vec<Descriptor>| list[at.min(list.len() - 1)].clone();
        let tree = depths.iter().copied().zip(leaves.iter().map(leaf)).collect();
        Descriptor::Tr(keys[at.min(keys.len() - 1)].clone(), tree)
    };
    Ok((0..count).map(make).collect())
}

/// The scripts of a tree from left to right: the depth of each, and its descriptors.
fn parse_tree(rest: &mut &str, prefixes: &Prefixes) -> Result<(Vec<u8>, Vec<Vec<Descriptor>>), String> {
    let mut depths = Vec::new();
    let mut leaves = Vec::new();
    // For each branch on the path down, whether it is a right one.
    let mut branches: Vec<bool> = Vec::new();
    loop {
        while take_char(rest, '{') {
            branches.push(false);
            if branches.len() > TREE_DEPTH_MAX {
                return Err(format!("tr() supports at most {TREE_DEPTH_MAX} nesting levels"));
            }
        }
        let mut script = take_expression(rest);
        leaves.push(parse_script(&mut script, KeyPlace::P2tr, prefixes)?);
        depths.push(branches.len() as u8);
        while branches.last() == Some(&true) {
            if !take_char(rest, '}') {
                return Err("tr(): expected '}' after script expression".into());
            }
            branches.pop();
        }
        let Some(last) = branches.last_mut() else { return Ok((depths, leaves)) };
        if !take_char(rest, ',') {
            return Err("tr(): expected ',' after script expression".into());
        }
        *last = true;
    }
}

fn parse_miniscript(expression: &str, place: KeyPlace, prefixes: &Prefixes) -> Parsed {
    match (miniscript_text::parse(expression, place, prefixes), place) {
        (Some(Ok(scripts)), KeyPlace::P2wsh) => return Ok(scripts.into_iter().map(Descriptor::Miniscript).collect()),
        (Some(Err(why)), KeyPlace::P2wsh) => return Err(why),
        (_, KeyPlace::P2wsh) => return Err("A function is needed within P2WSH".into()),
        (_, KeyPlace::P2tr) => {}
        _ => miniscript_text::refusal(expression, prefixes).map_or(Ok(()), Err)?,
    }
    Err(match place {
        KeyPlace::P2sh => "A function is needed within P2SH".into(),
        _ => format!("'{expression}' is not a valid descriptor function"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;

    /// The words are those of Core's descriptor_tests.cpp and of bitcoind's scantxoutset at b88bffe.
    #[test]
    fn refusals_are_cores() {
        let key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let long = "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
        for (text, want) in [
            ("nonsense()", "'nonsense()' is not a valid descriptor function"),
            ("", "'' is not a valid descriptor function"),
            ("1", "Miniscript expressions can only be used in wsh or tr."),
            ("sh(older(5))", "Miniscript expressions can only be used in wsh or tr."),
            ("raw(0)", "Raw script is not hex"),
            ("raw()", "Raw script is not hex"),
            ("raw(00)x", "'raw(00)x' is not a valid descriptor function"),
            ("raw(00),", ""),
            ("addr(x)", "Address is not valid"),
            ("pk()", "pk(): No key provided"),
            ("pk(00)", "pk(): Pubkey '00' is invalid"),
            ("pkh(a)", "pkh(): key 'a' is not valid"),
            ("pkh( a)", "pkh(): Key ' a' is invalid due to whitespace"),
            ("wpkh(LONG)", "wpkh(): Uncompressed keys are not allowed"),
            ("sh(wpkh(LONG))", "wpkh(): Uncompressed keys are not allowed"),
            ("wsh(pk(LONG))", "pk(): Uncompressed keys are not allowed"),
            ("sh(sh(pk(KEY)))", "Can only have sh() at top level"),
            ("wsh(wpkh(KEY))", "Can only have wpkh() at top level or inside sh()"),
            ("wsh(wsh(pk(KEY)))", "Can only have wsh() at top level or inside sh()"),
            ("sh(combo(KEY))", "Can only have combo() at top level"),
            ("sh(KEY)", "A function is needed within P2SH"),
            ("multi(a,KEY)", "Multi threshold 'a' is not valid"),
            ("multi(0,KEY)", "Multisig threshold cannot be 0, must be at least 1"),
            (
                "multi(2,KEY)",
                "Multisig threshold cannot be larger than the number of keys; threshold is 2 but only 1 keys specified",
            ),
            ("multi(1)", "Cannot have 0 keys in multisig; must have between 1 and 20 keys, inclusive"),
            ("multi(1,KEY,KEY,KEY,KEY)", "Cannot have 4 pubkeys in bare multisig; only at most 3 pubkeys"),
            ("multi_a(1,KEY)", "Can only have multi_a/sortedmulti_a inside tr()"),
            ("tr(KEY,multi(1,KEY))", "Can only have multi/sortedmulti at top level, in sh(), or in wsh()"),
            ("tr(KEY,{pk(KEY)})", "tr(): expected ',' after script expression"),
            ("tr(KEY,pk(KEY),pk(KEY))", "tr(): expected ')' after script expression"),
            ("rawtr(KEY,KEY)", "rawtr(): only one key expected."),
            ("pk([0011223]KEY)", "pk(): Fingerprint is not 4 bytes (7 characters instead of 8 characters)"),
            ("pk([0011223g]KEY)", "pk(): Fingerprint '0011223g' is not hex"),
            ("pk(00112233]KEY)", "pk(): Key origin start '[ character expected but not found, got '0' instead"),
            ("pk([00112233/2147483648]KEY)", "pk(): Key path value 2147483648 is out of range"),
            ("pk([00112233/a]KEY)", "pk(): Key path value 'a' is not a valid uint32"),
            ("raw(deadbeef)#", "Expected 8 character checksum, not 0 characters"),
            ("raw(deadbeef)##", "Multiple '#' symbols"),
            ("raw(deedbeef)#89f8spxm", "Provided checksum '89f8spxm' does not match computed checksum 'wfd7jv5d'"),
            ("raw(Ü)#00000000", "Invalid characters in payload"),
        ] {
            let text = text.replace("KEY", key).replace("LONG", long);
            let want = want.replace("KEY", key);
            let got = parse(&text, &Prefixes::of(Chain::Regtest)).map(|found| found.len());
            match got {
                Err(why) if want.contains("wfd7jv5d") => {
                    assert!(why.starts_with("Provided checksum '89f8spxm' does not"), "{why}")
                }
                got => assert_eq!(got, Err(want), "{text}"),
            }
        }
    }
}
