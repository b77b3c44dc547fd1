//! XOR with an 8-byte key, the obfuscation of Core's block files and chainstate values.

/// XORs `data` with `key`, of which `data[0]` meets byte `offset % 8`: `data[i] ^= key[(offset + i) % 8]`.
pub fn xor(data: &mut [u8], key: [u8; 8], offset: u64) {
    let turn = (offset % 8) as usize;
    for (at, byte) in data.iter_mut().enumerate() {
        *byte ^= key[(turn + at) % 8];
    }
}
