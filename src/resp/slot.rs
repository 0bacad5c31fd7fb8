//! Hash slots of a Redis cluster.

/// Number of hash slots in a Redis cluster.
pub const SLOTS: u16 = 16_384;

/// CRC16/XMODEM (polynomial 0x1021, initial value 0), as the
/// [cluster specification](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model) prescribes.
const fn crc16_table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

static CRC16: [u16; 256] = crc16_table();

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The hash slot of `key`, 0 to 16,383: CRC16 of the key, or of its first non-empty `{hash tag}`.
#[must_use]
pub fn key_slot(key: &[u8]) -> u16 {
    let hashed = match key.iter().position(|&byte| byte == b'{') {
        Some(open) => match key[open + 1..].iter().position(|&byte| byte == b'}') {
            Some(length) if length > 0 => &key[open + 1..open + 1 + length],
            _ => key,
        },
        None => key,
    };
    crc16(hashed) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(key_slot(b"123456789"), 0x31C3);
    }

    #[test]
    fn only_the_first_non_empty_hash_tag_counts() {
        assert_eq!(key_slot(b"{user1000}.following"), key_slot(b"user1000"));
        assert_eq!(key_slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(key_slot(b"foo{{bar}}zap"), key_slot(b"{bar"));
        assert_eq!(key_slot(b"foo{bar}{zap}"), key_slot(b"bar"));
    }
}
