//! Keys of descriptors: plain ones, private ones, extended ones with a path.
//!
//! Source: Bitcoin Core b88bffe, script/descriptor.cpp, `ParsePubkey`, `ParsePubkeyInner`, `ParseKeyPath`,
//! `BIP32PubkeyProvider`. Absent: `musig()`, which is refused by name.

use super::known::{Known, Origin, hash160};
use crate::output::Prefixes;
use crate::output::address::decode_base58_check;
use bitcoin::bip32::{ChildNumber, Xpriv, Xpub};
use bitcoin::secp256k1::{All, PublicKey, Secp256k1, SecretKey};
use primitives::hex;
use std::sync::LazyLock;

/// Tables of libsecp256k1, made once.
pub(super) static SECP: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);

/// First hardened index.
const HARDENED: u32 = 1 << 31;

/// Position of a key in a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyPlace {
    Top,
    P2sh,
    P2wpkh,
    P2wsh,
    P2tr,
}

impl KeyPlace {
    fn permits_long_keys(self) -> bool {
        matches!(self, KeyPlace::Top | KeyPlace::P2sh)
    }
}

/// Which children of an extended key an expression includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Children {
    /// The key that the path leads to.
    None,
    /// `/*`.
    Plain,
    /// `/*h`.
    Hardened,
}

#[derive(Clone, Debug)]
enum Kind {
    /// 33 or 65 bytes.
    Plain {
        key: Vec<u8>,
        /// Whether it is written without its first byte.
        is_x_only: bool,
    },
    Extended {
        xpub: Box<Xpub>,
        xprv: Option<Box<Xpriv>>,
        path: Vec<u32>,
        children: Children,
    },
}

/// A key expression.
#[derive(Clone, Debug)]
pub(super) struct Key {
    origin: Option<([u8; 4], Vec<u32>)>,
    kind: Kind,
    /// Marker of hardened steps: `h`, or an apostrophe if the last parsed step had that.
    marker: char,
    /// Whether the private key was given.
    is_private: bool,
}

/// A key at a position: its bytes, and its origin.
#[derive(Clone, Debug)]
pub(super) struct Derived {
    pub(super) key: Vec<u8>,
    pub(super) origin: Origin,
}

impl Key {
    /// Whether it expands to many keys.
    pub(super) fn is_ranged(&self) -> bool {
        matches!(self.kind, Kind::Extended { children: Children::Plain | Children::Hardened, .. })
    }

    /// Length of its keys in bytes.
    pub(super) fn bytes(&self) -> usize {
        if let Kind::Plain { key, .. } = &self.kind { key.len() } else { 33 }
    }

    /// Whether the private key was given.
    pub(super) fn is_private(&self) -> bool {
        self.is_private
    }

    /// Its text in a descriptor, without the private key. Source: Core's `PubkeyProvider::ToString`.
    pub(super) fn shown(&self) -> String {
        let steps = |path: &[u32]| path.iter().map(|step| path_step(*step, self.marker)).collect::<String>();
        let origin = self.origin.as_ref();
        let origin = origin.map(|(fingerprint, path)| format!("[{}{}]", hex::encode(fingerprint), steps(path)));
        let key = match &self.kind {
            Kind::Plain { key, is_x_only } => hex::encode(&key[usize::from(*is_x_only)..]),
            Kind::Extended { xpub, path, children, .. } => {
                let last = match children {
                    Children::None => String::new(),
                    Children::Plain => "/*".to_owned(),
                    Children::Hardened => format!("/*{}", self.marker),
                };
                format!("{xpub}{}{last}", steps(path))
            }
        };
        format!("{}{key}", origin.unwrap_or_default())
    }

    /// The key at a position; `None` if a required private key is missing.
    pub(super) fn at(&self, position: u32) -> Option<Derived> {
        let (key, fingerprint, steps) = match &self.kind {
            Kind::Plain { key, .. } => {
                let hash = hash160(key);
                (key.clone(), *hash.first_chunk().expect("20 bytes"), Vec::new())
            }
            Kind::Extended { xpub, xprv, path, children } => {
                let mut steps = path.clone();
                match children {
                    Children::None => {}
                    Children::Plain => steps.push(position),
                    Children::Hardened => steps.push(position | HARDENED),
                }
                let key = derive(xpub, xprv.as_deref(), &steps)?;
                (key.serialize().to_vec(), xpub.fingerprint().to_bytes(), steps)
            }
        };
        let (fingerprint, mut whole) = match &self.origin {
            Some((fingerprint, before)) => (*fingerprint, before.clone()),
            None => (fingerprint, Vec::new()),
        };
        whole.extend(steps);
        let path: String = whole.iter().map(|step| path_step(*step, 'h')).collect();
        Some(Derived { key, origin: format!("[{}{path}]", hex::encode(&fingerprint)) })
    }
}

impl Key {
    /// The key's bytes at a position; adds them with their origin to `known`.
    pub(super) fn noted(&self, position: u32, known: &mut Known) -> Option<Vec<u8>> {
        let Derived { key, origin } = self.at(position)?;
        known.add_key(&key, Some(origin));
        Some(key)
    }
}

fn path_step(step: u32, marker: char) -> String {
    let number = step & !HARDENED;
    if step >= HARDENED { format!("/{number}{marker}") } else { format!("/{number}") }
}

/// Marker of the last hardened step of a path.
fn marker_of(steps: &[&str]) -> Option<char> {
    steps.iter().rev().find_map(|step| step.chars().rev().find(|char| matches!(char, 'h' | '\'')))
}

fn derive(xpub: &Xpub, xprv: Option<&Xpriv>, steps: &[u32]) -> Option<PublicKey> {
    let steps: Vec<ChildNumber> = steps.iter().map(|step| ChildNumber::from(*step)).collect();
    match xprv {
        Some(xprv) => Some(xprv.derive_priv(&SECP, &steps).ok()?.private_key.public_key(&SECP)),
        None => Some(xpub.derive_pub(&SECP, &steps).ok()?.public_key),
    }
}

fn is_space(char: char) -> bool {
    matches!(char, ' ' | '\x0c' | '\n' | '\r' | '\t' | '\x0b')
}

/// Bytes of hexadecimal text that is not empty.
pub(super) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    hex::decode(text).filter(|_| !text.is_empty())
}

/// Parses a key expression; several keys if its path has multipath steps.
///
/// # Errors
///
/// Core's message.
pub(super) fn parse_key(text: &str, place: KeyPlace, prefixes: &Prefixes) -> Result<Vec<Key>, String> {
    if text.starts_with("musig(") {
        return Err(match place {
            KeyPlace::P2tr => "musig() is not supported".into(),
            _ => "musig() is only allowed in tr() and rawtr()".into(),
        });
    }
    let parts: Vec<&str> = text.split(']').collect();
    let (before, key) = match parts[..] {
        [key] => return parse_inner(key, None, None, place, prefixes),
        [before, key] => (before, key),
        _ => return Err("Multiple ']' characters found for a single pubkey".into()),
    };
    let Some(origin) = before.strip_prefix('[') else {
        let found = before.chars().next().unwrap_or(']');
        return Err(format!("Key origin start '[ character expected but not found, got '{found}' instead"));
    };
    let steps: Vec<&str> = origin.split('/').collect();
    if steps[0].len() != 8 {
        return Err(format!("Fingerprint is not 4 bytes ({} characters instead of 8 characters)", steps[0].len()));
    }
    let fingerprint = bytes_of(steps[0]).and_then(|bytes| bytes.try_into().ok());
    let fingerprint = fingerprint.ok_or_else(|| format!("Fingerprint '{}' is not hex", steps[0]))?;
    let path = parse_path(&steps[1..], false)?.remove(0);
    parse_inner(key, Some((fingerprint, path)), marker_of(&steps[1..]), place, prefixes)
}

fn parse_inner(
    text: &str,
    origin: Option<([u8; 4], Vec<u32>)>,
    marker: Option<char>,
    place: KeyPlace,
    prefixes: &Prefixes,
) -> Result<Vec<Key>, String> {
    let mut steps: Vec<&str> = text.split('/').collect();
    let name = steps.remove(0);
    if name.is_empty() {
        return Err("No key provided".into());
    }
    if name.starts_with(is_space) || name.ends_with(is_space) {
        return Err(format!("Key '{name}' is invalid due to whitespace"));
    }
    let plain = |key: Vec<u8>, is_x_only: bool, is_private: bool| {
        let kind = Kind::Plain { key, is_x_only };
        Ok(vec![Key { origin: origin.clone(), kind, marker: marker.unwrap_or('h'), is_private }])
    };
    let too_long = || Err("Uncompressed keys are not allowed".to_owned());
    if steps.is_empty() {
        if let Some(bytes) = bytes_of(name) {
            return match plain_key(&bytes, place)? {
                Some(key) if key.len() == 33 || place.permits_long_keys() => plain(key, bytes.len() == 32, false),
                Some(_) => too_long(),
                None => Err(format!("Pubkey '{name}' is invalid")),
            };
        }
        if let Some(key) = private_key(name, prefixes).and_then(|key| key.public_key()) {
            let fits = key.len() == 33 || place.permits_long_keys();
            return if fits { plain(key, place == KeyPlace::P2tr, true) } else { too_long() };
        }
    }
    let Some((xpub, xprv)) = extended_key(name, prefixes) else { return Err(format!("key '{name}' is not valid")) };
    let children = match steps.last() {
        Some(&"*") => Children::Plain,
        Some(&("*'" | "*h")) => Children::Hardened,
        _ => Children::None,
    };
    let of_children = if children == Children::None { None } else { steps.pop().and_then(|last| marker_of(&[last])) };
    let marker = marker_of(&steps).or(of_children).or(marker).unwrap_or('h');
    let key = |path| {
        let kind = Kind::Extended { xpub: xpub.clone(), xprv: xprv.clone(), path, children };
        Key { origin: origin.clone(), kind, marker, is_private: xprv.is_some() }
    };
    Ok(parse_path(&steps, true)?.into_iter().map(key).collect())
}

/// A key from its bytes; in taproot 32 bytes are enough.
fn plain_key(bytes: &[u8], place: KeyPlace) -> Result<Option<Vec<u8>>, String> {
    if matches!((bytes.first(), bytes.len()), (Some(6 | 7), 65)) {
        return Err("Hybrid public keys are not allowed".into());
    }
    let whole = if bytes.len() == 32 && place == KeyPlace::P2tr { [&[2], bytes].concat() } else { bytes.to_vec() };
    Ok(PublicKey::from_slice(&whole).is_ok().then_some(whole))
}

/// The public key of a private one. Source: Core's `DecodeSecret`.
pub(crate) fn private_key(text: &str, prefixes: &Prefixes) -> Option<PrivateKey> {
    let payload = decode_base58_check(text, 34)?;
    let (_, rest) = payload.split_first().filter(|(prefix, _)| **prefix == prefixes.secret)?;
    let (secret, last) = rest.split_first_chunk::<32>()?;
    let is_compressed = match last {
        [] => false,
        [1] => true,
        _ => return None,
    };
    Some(PrivateKey { secret: *secret, is_compressed })
}

/// A private key as it is written; it may be out of range.
#[derive(Clone, Copy)]
pub(crate) struct PrivateKey {
    pub(crate) secret: [u8; 32],
    /// Whether its public key has 33 bytes.
    pub(crate) is_compressed: bool,
}

impl PrivateKey {
    /// Its public key; `None` if it is out of range.
    fn public_key(&self) -> Option<Vec<u8>> {
        let key = SecretKey::from_slice(&self.secret).ok()?.public_key(&SECP);
        Some(if self.is_compressed { key.serialize().to_vec() } else { key.serialize_uncompressed().to_vec() })
    }
}

/// An extended key, and its private key if it has one.
fn extended_key(text: &str, prefixes: &Prefixes) -> Option<(Box<Xpub>, Option<Box<Xpriv>>)> {
    let payload = decode_base58_check(text, 78).filter(|payload| payload.len() == 78)?;
    if payload[..4] == prefixes.xprv {
        let xprv = Xpriv::decode(&payload).ok()?;
        return Some((Box::new(Xpub::from_priv(&SECP, &xprv)), Some(Box::new(xprv))));
    }
    let xpub = Xpub::decode(&payload).ok().filter(|_| payload[..4] == prefixes.xpub)?;
    Some((Box::new(xpub), None))
}

/// The paths of the steps: one, or with `<a;b>` one for each choice.
fn parse_path(steps: &[&str], allows_choices: bool) -> Result<Vec<Vec<u32>>, String> {
    let mut paths: Vec<Vec<u32>> = vec![Vec::new()];
    let mut had_choices = false;
    for step in steps {
        let Some(choices) = step.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) else {
            let number = parse_step(step)?;
            paths.iter_mut().for_each(|path| path.push(number));
            continue;
        };
        if !allows_choices {
            return Err(format!(
                "Key path value '{step}' specifies multipath in a section where multipath is not allowed"
            ));
        }
        if std::mem::replace(&mut had_choices, true) {
            return Err("Multiple multipath key path specifiers found".into());
        }
        let choices: Vec<&str> = choices.split(';').collect();
        if choices.len() < 2 {
            return Err("Multipath key path specifiers must have at least two items".into());
        }
        let mut numbers: Vec<u32> = Vec::new();
        for choice in choices {
            let number = parse_step(choice)?;
            if numbers.contains(&number) {
                return Err(format!("Duplicated key path value {number} in multipath specifier"));
            }
            numbers.push(number);
        }
        let before = paths.remove(0);
        paths = numbers.into_iter().map(|number| [&before[..], &[number]].concat()).collect();
    }
    Ok(paths)
}

fn parse_step(step: &str) -> Result<u32, String> {
    let (digits, hardened) = match step.strip_suffix(['\'', 'h']) {
        Some(digits) => (digits, HARDENED),
        None => (step, 0),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = is_number.then(|| digits.parse::<u32>().ok()).flatten();
    let number = number.ok_or_else(|| format!("Key path value '{digits}' is not a valid uint32"))?;
    if number >= HARDENED {
        return Err(format!("Key path value {number} is out of range"));
    }
    Ok(number | hardened)
}
