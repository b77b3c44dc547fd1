//! Core's serialization of addresses on disk, and the frame of its small files.
//!
//! File:     magic of the network [u8; 4] | contents | sha256d of all before [u8; 32]
//! Address:  version u32 | time u32 | services CompactSize | network u8 | length CompactSize | bytes | port u16 BE
//!           before BIP155 (version without bit 29): version u32 | time u32 | services u64 | mapped IPv6 [u8; 16] | port u16 BE
//!
//! Source: Bitcoin Core b88bffe, addrdb.cpp, protocol.h, netaddress.h. As in Core, contents are parsed up to the
//! first error, and the hash is checked at the end.

use crate::wire::{AddressEntry, NetAddress, PeerAddress};
use kernels::sha256::sha256d;
use primitives::Reader;
use primitives::encode::put_compact_size;
use std::net::{IpAddr, Ipv6Addr};

/// Version of an address on disk. Source: Core's `DISK_VERSION_INIT`, `DISK_VERSION_ADDRV2`,
/// `DISK_VERSION_IGNORE_MASK`.
const VERSION: u32 = 220_000 | BIP155;
const BIP155: u32 = 1 << 29;
const VERSION_IGNORED: u32 = 0x7_ffff;
/// Source: Core's `MAX_ADDRV2_SIZE`.
const ADDRESS_BYTES_MAX: u64 = 512;

/// Why bytes are invalid, in Core's words, so that users can search for the message.
pub(super) type Fault = String;

/// Serialization of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// The form of `addr`.
    Old,
    /// The form of `addrv2`.
    Bip155,
}

/// Adds the text that C++'s standard library appends to stream errors in Core.
pub(super) fn stream(text: &str) -> Fault {
    format!("{text}: iostream error")
}

fn cut<E>(_: E) -> Fault {
    stream("AutoFile::read: end of file")
}

/// Reads the contents of a file.
pub(super) struct Source<'a> {
    reader: Reader<'a>,
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    /// Starts after the magic.
    pub(super) fn new(bytes: &'a [u8], magic: [u8; 4]) -> Result<Source<'a>, Fault> {
        let mut source = Source { reader: Reader::new(bytes), bytes };
        match source.array::<4>()? == magic {
            true => Ok(source),
            false => Err("Invalid network magic number".to_owned()),
        }
    }

    /// Checks the hash at the end.
    pub(super) fn finish(mut self) -> Result<(), Fault> {
        let end = self.bytes.len() - self.reader.remaining();
        match self.array::<32>()? == sha256d(&self.bytes[..end]) {
            true => Ok(()),
            false => Err("Checksum mismatch, data corrupted".to_owned()),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.reader.array().copied().map_err(cut)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        self.reader.u8().map_err(cut)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Fault> {
        self.array().map(i32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Fault> {
        self.array().map(i64::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        self.reader.u32().map_err(cut)
    }

    /// A CompactSize with any 64-bit value.
    pub(super) fn compact(&mut self) -> Result<u64, Fault> {
        let first = self.u8()?;
        let (value, least) = match first {
            253 => (u16::from_le_bytes(self.array()?).into(), 253),
            254 => (u32::from_le_bytes(self.array()?).into(), 0x1_0000),
            255 => (u64::from_le_bytes(self.array()?), 0x1_0000_0000),
            small => (small.into(), 0),
        };
        if value < least { Err(stream("non-canonical ReadCompactSize()")) } else { Ok(value) }
    }

    /// A CompactSize that is a length.
    pub(super) fn size(&mut self) -> Result<u64, Fault> {
        const SIZE_MAX: u64 = 0x0200_0000;
        let size = self.compact()?;
        if size > SIZE_MAX { Err(stream("ReadCompactSize(): size too large")) } else { Ok(size) }
    }

    /// A network address; for an unknown network the unspecified address, which is not valid.
    pub(super) fn net_address(&mut self, form: Form) -> Result<NetAddress, Fault> {
        let none = NetAddress::V6([0; 16]);
        if form == Form::Old {
            let address = NetAddress::from_ip(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)));
            // Prefix that represented a Tor version 2 service.
            let is_onion = matches!(address, NetAddress::V6([0xfd, 0x87, 0xd8, 0x7e, 0xeb, 0x43, ..]));
            return Ok(if is_onion { none } else { address });
        }
        let network = self.u8()?;
        let length = self.size()?;
        if length > ADDRESS_BYTES_MAX {
            return Err(stream(&format!("Address too long: {length} > {ADDRESS_BYTES_MAX}")));
        }
        let length = usize::try_from(length).expect("at most 512");
        if network == 3 {
            // Tor version 2, which is obsolete.
            let is_right = length == 10;
            self.reader.take(length).map_err(cut)?;
            return if is_right { Ok(none) } else { Err(wrong_length("TORv2", length, 10)) };
        }
        let want = [("IPv4", 4), ("IPv6", 16), ("", 0), ("TORv3", 32), ("I2P", 32), ("CJDNS", 16)];
        let known = usize::from(network).checked_sub(1).and_then(|place| want.get(place));
        if let Some((name, want)) = known.filter(|(_, want)| *want != length) {
            return Err(wrong_length(name, length, *want));
        }
        let bytes = self.reader.take(length).map_err(cut)?;
        let address = NetAddress::from_bip155(network, bytes).map_err(|why| stream(&why.to_string()))?;
        Ok(address.unwrap_or(none))
    }

    fn port(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    /// An address with its metadata; `most` is the newest allowed version.
    pub(super) fn address(&mut self, most: Form) -> Result<AddressEntry, Fault> {
        let form = match self.u32()? & !VERSION_IGNORED {
            0 => Form::Old,
            BIP155 if most == Form::Bip155 => Form::Bip155,
            _ => return Err(stream("Unsupported CAddress disk format version")),
        };
        let time = self.u32()?;
        let services = match form {
            Form::Old => u64::from_le_bytes(self.array()?),
            Form::Bip155 => self.compact()?,
        };
        let address = self.net_address(form)?;
        Ok(AddressEntry { peer: PeerAddress { address, port: self.port()? }, services, time })
    }
}

fn wrong_length(name: &str, length: usize, want: usize) -> Fault {
    stream(&format!("BIP155 {name} address with length {length} (should be {want})"))
}

/// Begins a file with the magic.
pub(super) fn begin(magic: [u8; 4]) -> Vec<u8> {
    magic.to_vec()
}

/// Appends the hash.
pub(super) fn end(mut out: Vec<u8>) -> Vec<u8> {
    let sum = sha256d(&out);
    out.extend_from_slice(&sum);
    out
}

pub(super) fn put_net_address(out: &mut Vec<u8>, address: NetAddress) {
    out.push(address.network());
    let bytes = address.bytes();
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_address(out: &mut Vec<u8>, entry: &AddressEntry) {
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&entry.time.to_le_bytes());
    put_compact_size(out, entry.services);
    put_net_address(out, entry.peer.address);
    out.extend_from_slice(&entry.peer.port.to_be_bytes());
}
