//! Scripts as text, as Core's vectors write them: numbers, `0x` bytes, 'quoted' pushes, opcode names.

use primitives::hex;
use script::opcode::{NAMES, OP_1, OP_1NEGATE, OP_NOP, OP_RESERVED, push_data};

/// The script of a text. Source: Bitcoin Core b88bffe, `ParseScript`.
pub(crate) fn script(text: &str) -> Vec<u8> {
    let mut script = Vec::new();
    for word in text.split_whitespace() {
        if let Ok(number) = word.parse::<i64>() {
            push_number(&mut script, number);
        } else if let Some(bytes) = word.strip_prefix("0x") {
            script.extend(hex::decode(bytes).unwrap_or_else(|| panic!("{word} is not hexadecimal")));
        } else if let Some(quoted) = word.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            push_data(&mut script, quoted.as_bytes());
        } else {
            script.push(opcode(word));
        }
    }
    script
}

/// Pushes a number with the shortest opcode. Source: Bitcoin Core b88bffe, `CScript::push_int64`.
pub(crate) fn push_number(script: &mut Vec<u8>, number: i64) {
    match number {
        0 => script.push(0),
        -1 => script.push(OP_1NEGATE),
        1..=16 => script.push(OP_1 - 1 + number as u8),
        _ => {
            let mut bytes: Vec<u8> = number.unsigned_abs().to_le_bytes().to_vec();
            while bytes.last() == Some(&0) {
                bytes.pop();
            }
            if bytes.last().unwrap() & 0x80 != 0 {
                bytes.push(0);
            }
            if number < 0 {
                *bytes.last_mut().unwrap() |= 0x80;
            }
            push_data(script, &bytes);
        }
    }
}

/// The opcode of that name, with or without `OP_`.
fn opcode(word: &str) -> u8 {
    let name = word.strip_prefix("OP_").unwrap_or(word);
    let known = match name {
        "NOP2" => "CHECKLOCKTIMEVERIFY",
        "NOP3" => "CHECKSEQUENCEVERIFY",
        other => other,
    };
    let found = NAMES
        .iter()
        .find(|(full, value)| full.strip_prefix("OP_") == Some(known) && (*value >= OP_NOP || *value == OP_RESERVED));
    found.unwrap_or_else(|| panic!("no opcode {word}")).1
}

#[test]
fn assembler_writes_known_bytes() {
    for (text, want) in [
        ("", ""),
        ("0 1 16 17 -1 -2", "005160011 14f0182"),
        ("127 128 255 256 -255", "017f02800002ff0002000102ff80"),
        ("0x4c 0x01 0x07", "4c0107"),
        ("'' 'ab'", "00026162"),
        ("OP_DUP HASH160 NOP2 CHECKSIGADD RESERVED", "76a9b1ba50"),
    ] {
        assert_eq!(hex::encode(&script(text)), want.replace(' ', ""), "{text}");
    }
    assert_eq!(script("16"), [script::opcode::OP_16]);
}
