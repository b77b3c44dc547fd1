//! Opcodes that compute: numbers and hashes.

use super::Machine;
use crate::error::ScriptError;
use crate::number;
use crate::opcode::*;
use crate::stack::Element;
use kernels::sha256::{sha256, sha256d};
use ripemd::{Digest, Ripemd160};
use sha1::Sha1;

/// RIPEMD-160 of SHA-256. Source: Bitcoin Core b88bffe, `CHash160`.
#[inline]
pub(crate) fn hash160(bytes: &[u8]) -> [u8; 20] {
    Ripemd160::digest(sha256(bytes)).into()
}

impl Machine<'_, '_, '_, '_> {
    pub(super) fn unary(&mut self, opcode: u8) -> Result<(), ScriptError> {
        let x = self.operand(0)?;
        let result = match opcode {
            OP_1ADD => x + 1,
            OP_1SUB => x - 1,
            OP_NEGATE => -x,
            OP_ABS => x.abs(),
            OP_NOT => i64::from(x == 0),
            OP_0NOTEQUAL => i64::from(x != 0),
            _ => return Err(ScriptError::BadOpcode),
        };
        self.stack.drop(1)?;
        self.stack.push(number::encode(result));
        Ok(())
    }

    pub(super) fn binary(&mut self, opcode: u8) -> Result<(), ScriptError> {
        self.stack.need(2)?;
        let x = self.operand(1)?;
        let y = self.operand(0)?;
        let result = match opcode {
            OP_ADD => x + y,
            OP_SUB => x - y,
            OP_MIN => x.min(y),
            OP_MAX => x.max(y),
            _ => i64::from(compare(opcode, x, y)?),
        };
        self.stack.drop(2)?;
        if opcode == OP_NUMEQUALVERIFY {
            return self.conclude(result != 0, true, ScriptError::NumEqualVerify);
        }
        self.stack.push(number::encode(result));
        Ok(())
    }

    pub(super) fn within(&mut self) -> Result<(), ScriptError> {
        self.stack.need(3)?;
        let x = self.operand(2)?;
        let low = self.operand(1)?;
        let high = self.operand(0)?;
        self.stack.drop(3)?;
        self.stack.push(Element::boolean((low..high).contains(&x)));
        Ok(())
    }

    pub(super) fn hash(&mut self, opcode: u8) -> Result<(), ScriptError> {
        let top = self.stack.pop()?;
        let bytes = top.bytes();
        self.stack.push(match opcode {
            OP_RIPEMD160 => Element::computed(&Ripemd160::digest(bytes)),
            OP_SHA1 => Element::computed(&Sha1::digest(bytes)),
            OP_SHA256 => Element::computed(&sha256(bytes)),
            OP_HASH160 => Element::computed(&hash160(bytes)),
            _ => Element::computed(&sha256d(bytes)),
        });
        Ok(())
    }
}

/// The opcodes with a boolean result.
fn compare(opcode: u8, x: i64, y: i64) -> Result<bool, ScriptError> {
    Ok(match opcode {
        OP_BOOLAND => x != 0 && y != 0,
        OP_BOOLOR => x != 0 || y != 0,
        OP_NUMEQUAL | OP_NUMEQUALVERIFY => x == y,
        OP_NUMNOTEQUAL => x != y,
        OP_LESSTHAN => x < y,
        OP_GREATERTHAN => x > y,
        OP_LESSTHANOREQUAL => x <= y,
        OP_GREATERTHANOREQUAL => x >= y,
        _ => return Err(ScriptError::BadOpcode),
    })
}
