//! The parameters of a call, read with Core's errors.
//!
//! Source: Bitcoin Core b88bffe, `UniValue::getInt`, `get_str`, `get_bool`; rpc/util.cpp, `ParseHashV`, `ParseHexV`.

use crate::error::RpcError;
use crate::json::Json;
use primitives::{BlockHash, Hash256, Txid, hex};

/// Parameters by position; a missing one is null.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(&'a [Json]);

impl<'a> Args<'a> {
    /// Wraps the result of [`crate::registry::Call::bind`].
    pub fn new(values: &'a [Json]) -> Args<'a> {
        Args(values)
    }

    /// Number of given parameters, null or not.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All given parameters.
    pub fn all(&self) -> &'a [Json] {
        self.0
    }

    /// The parameter at this index, from 0.
    pub fn get(&self, at: usize) -> &'a Json {
        static NULL: Json = Json::Null;
        self.0.get(at).unwrap_or(&NULL)
    }

    /// Whether the parameter was given and is not null.
    pub fn is_given(&self, at: usize) -> bool {
        !self.get(at).is_null()
    }

    /// A number of 32 bits, as `getInt<int>`.
    ///
    /// # Errors
    ///
    /// Another type, or out of range.
    pub fn int(&self, at: usize) -> Result<i32, RpcError> {
        int(self.get(at))
    }

    /// A number of 64 bits.
    ///
    /// # Errors
    ///
    /// Another type, or out of range.
    pub fn int64(&self, at: usize) -> Result<i64, RpcError> {
        int(self.get(at))
    }

    /// A number of 64 bits, if it was given.
    ///
    /// # Errors
    ///
    /// Another type, or out of range.
    pub fn maybe_int64(&self, at: usize) -> Result<Option<i64>, RpcError> {
        self.is_given(at).then(|| self.int64(at)).transpose()
    }

    /// Text.
    ///
    /// # Errors
    ///
    /// Another type.
    pub fn text(&self, at: usize) -> Result<&'a str, RpcError> {
        text(self.get(at))
    }

    /// Text, if it was given.
    ///
    /// # Errors
    ///
    /// Another type.
    pub fn maybe_text(&self, at: usize) -> Result<Option<&'a str>, RpcError> {
        self.is_given(at).then(|| self.text(at)).transpose()
    }

    /// True or false.
    ///
    /// # Errors
    ///
    /// Another type.
    pub fn bool(&self, at: usize) -> Result<bool, RpcError> {
        boolean(self.get(at))
    }

    /// True or false; `default` if it was not given.
    ///
    /// # Errors
    ///
    /// Another type.
    pub fn bool_or(&self, at: usize, default: bool) -> Result<bool, RpcError> {
        if self.is_given(at) { self.bool(at) } else { Ok(default) }
    }

    /// The hash of a block. `name` is the parameter's name in the error.
    ///
    /// # Errors
    ///
    /// Another type, another length, or characters that are not hexadecimal digits.
    pub fn block_hash(&self, at: usize, name: &str) -> Result<BlockHash, RpcError> {
        hash(self.get(at), name).map(|hash| BlockHash::from_bytes(*hash.as_bytes()))
    }

    /// The id of a transaction.
    ///
    /// # Errors
    ///
    /// Those of [`Args::block_hash`].
    pub fn txid(&self, at: usize, name: &str) -> Result<Txid, RpcError> {
        hash(self.get(at), name).map(|hash| Txid::from_bytes(*hash.as_bytes()))
    }

    /// A list.
    ///
    /// # Errors
    ///
    /// Another type.
    pub fn list(&self, at: usize) -> Result<&'a [Json], RpcError> {
        match self.get(at) {
            Json::Arr(values) => Ok(values),
            other => Err(RpcError::of_type(other, "array")),
        }
    }
}

/// A whole number that fits the type `T`.
///
/// # Errors
///
/// Another type, or out of range.
pub fn int<T: TryFrom<i64>>(value: &Json) -> Result<T, RpcError> {
    let out_of_range = || RpcError::misc("JSON integer out of range");
    match value {
        Json::Int(value) => T::try_from(*value).map_err(|_| out_of_range()),
        // As in Core, for a type that has a sign.
        Json::Num(text) if text == "-0" && T::try_from(-1).is_ok() => T::try_from(0).map_err(|_| out_of_range()),
        Json::Num(_) => Err(out_of_range()),
        other => Err(RpcError::of_type(other, "number")),
    }
}

/// Text.
///
/// # Errors
///
/// Another type.
pub fn text(value: &Json) -> Result<&str, RpcError> {
    match value {
        Json::Str(text) => Ok(text),
        other => Err(RpcError::of_type(other, "string")),
    }
}

/// True or false.
///
/// # Errors
///
/// Another type.
pub fn boolean(value: &Json) -> Result<bool, RpcError> {
    match value {
        Json::Bool(value) => Ok(*value),
        other => Err(RpcError::of_type(other, "bool")),
    }
}

/// 256 bits in hexadecimal, in Core's reversed byte order.
///
/// # Errors
///
/// Another type, another length, or characters that are not hexadecimal digits. Source: Core's `ParseHashV`.
pub fn hash(value: &Json, name: &str) -> Result<Hash256, RpcError> {
    let text = text(value)?;
    let bytes = hex::decode(text).filter(|_| text.len() == 64);
    let Some(mut bytes) = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) else {
        return Err(RpcError::parameter(if text.len() == 64 {
            format!("{name} must be hexadecimal string (not '{text}')")
        } else {
            format!("{name} must be of length 64 (not {}, for '{text}')", text.len())
        }));
    };
    bytes.reverse();
    Ok(Hash256(bytes))
}

/// Bytes in hexadecimal.
///
/// # Errors
///
/// Another type, or characters that are not hexadecimal digits. Source: Core's `ParseHexV`.
pub fn bytes(value: &Json, name: &str) -> Result<Vec<u8>, RpcError> {
    let text = text(value)?;
    let bytes = hex::decode(text).filter(|_| !text.is_empty());
    bytes.ok_or_else(|| RpcError::parameter(format!("{name} must be hexadecimal string (not '{text}')")))
}

/// An amount in bitcoins, as a number or text, in satoshis. Source: Core's `AmountFromValue`, `ParseFixedPoint`.
///
/// # Errors
///
/// Another type, more than eight decimals, or outside the range of money.
#[cfg(feature = "descriptors")]
pub fn amount(value: &Json) -> Result<i64, RpcError> {
    let wrong = |why: &str| RpcError::new(crate::error::Code::Type, why);
    let whole;
    let text = match value {
        Json::Int(value) => {
            whole = value.to_string();
            &whole
        }
        Json::Num(text) | Json::Str(text) => text,
        _ => return Err(wrong("Amount is not a number or string")),
    };
    let satoshis = fixed_point(text).ok_or_else(|| wrong("Invalid amount"))?;
    match (0..=primitives::Amount::MAX.0).contains(&satoshis) {
        true => Ok(satoshis),
        false => Err(wrong("Amount out of range")),
    }
}

/// A decimal number times 100,000,000, if that is whole and has at most 18 digits.
#[cfg(feature = "descriptors")]
fn fixed_point(text: &str) -> Option<i64> {
    let are_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let size: i64 = digits.parse().ok().filter(|_| are_digits(digits))?;
            (mantissa, if exponent.starts_with('-') { -size } else { size })
        }
        None => (text, 0),
    };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or((1, mantissa), |rest| (-1, rest));
    let (whole, part) = mantissa.split_once('.').map_or((mantissa, None), |(whole, part)| (whole, Some(part)));
    let is_good = are_digits(whole) && (whole == "0" || !whole.starts_with('0')) && part.is_none_or(are_digits);
    let digits = format!("{whole}{}", part.unwrap_or_default());
    let all_digits = digits.len();
    let digits = digits.trim_end_matches('0');
    let zeros = all_digits - digits.len();
    let places = exponent.checked_sub(part.map_or(0, str::len) as i64)?.checked_add(zeros as i64 + 8)?;
    let value: i64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let power = u32::try_from(places).ok().filter(|&places| is_good && places < 18)?;
    value.checked_mul(10_i64.pow(power)).filter(|value| *value < 1_000_000_000_000_000_000).map(|value| sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    /// Rows of Core's `rpc_parse_monetary_values` (test/rpc_tests.cpp), and of its ranges.
    #[cfg(feature = "descriptors")]
    #[test]
    fn amounts_are_read_as_core_reads_them() {
        for (text, want) in [
            ("-0.00000001", Err("Amount out of range")),
            ("0", Ok(0)),
            ("0.00000000", Ok(0)),
            ("0.00000001", Ok(1)),
            ("0.17622195", Ok(17_622_195)),
            ("0.5", Ok(50_000_000)),
            ("20999999.9999999", Ok(2_099_999_999_999_990)),
            ("20999999.99999999", Ok(2_099_999_999_999_999)),
            ("21000000.00000001", Err("Amount out of range")),
            ("1e-8", Ok(1)),
            ("0.1e-7", Ok(1)),
            ("0.01e-6", Ok(1)),
            ("0.00000000000000000000000000000000000001e+30", Ok(1)),
            ("1e+7", Ok(1_000_000_000_000_000)),
            ("1e-9", Err("Invalid amount")),
            ("0.000000019", Err("Invalid amount")),
            ("0.00000001000000", Ok(1)),
            ("19e-9", Err("Invalid amount")),
            ("0.19e-6", Ok(19)),
            ("92233720368.54775808", Err("Invalid amount")),
            ("1e+11", Err("Invalid amount")),
            ("1e11", Err("Invalid amount")),
            ("93e+9", Err("Invalid amount")),
            ("", Err("Invalid amount")),
            ("-", Err("Invalid amount")),
            ("01", Err("Invalid amount")),
            ("1.", Err("Invalid amount")),
            (".5", Err("Invalid amount")),
            ("1e", Err("Invalid amount")),
            ("1e+", Err("Invalid amount")),
            ("1 ", Err("Invalid amount")),
            ("1e99999999999999999999", Err("Invalid amount")),
        ] {
            let found = amount(&Json::from(text.to_owned())).map_err(|why| why.message);
            assert_eq!(found, want.map_err(str::to_owned), "{text}");
        }
        assert_eq!(amount(&Json::Int(2)), Ok(200_000_000));
        assert_eq!(amount(&Json::Bool(true)).unwrap_err().message, "Amount is not a number or string");
    }

    #[test]
    fn parameters_are_read_with_cores_errors() {
        let values = [Json::Int(7), Json::Num("1e+99".to_owned()), Json::from("zz"), Json::Int(1 << 40)];
        let args = Args::new(&values);
        assert_eq!(args.int(0), Ok(7));
        assert!(!args.is_given(4) && args.get(4).is_null());
        let out_of_range = Err(RpcError::misc("JSON integer out of range"));
        assert_eq!((args.int(1), args.int(3)), (out_of_range.clone(), out_of_range));
        assert_eq!(args.int64(3), Ok(1 << 40));
        let zero = Json::parse(b"-0").unwrap();
        assert_eq!((int(&zero), int::<u32>(&zero).is_err()), (Ok(0_i32), true));
        let why = args.int(2).unwrap_err();
        assert_eq!((why.code, &*why.message), (Code::Type, "JSON value of type string is not of expected type number"));
        let why = args.block_hash(2, "blockhash").unwrap_err();
        let want = "blockhash must be of length 64 (not 2, for 'zz')";
        assert_eq!((why.code, &*why.message), (Code::InvalidParameter, want));
        let shown = Json::from("z".repeat(64));
        assert!(hash(&shown, "x").unwrap_err().message.starts_with("x must be hexadecimal string (not 'zzz"));
        let genesis = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        assert_eq!(hash(&Json::from(genesis), "x").unwrap().to_string(), genesis);
    }
}
