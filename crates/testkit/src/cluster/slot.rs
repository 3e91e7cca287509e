//! Hash slots, independent of the server's code.

/// The number of hash slots.
pub const SLOTS: u16 = 16384;

/// The hash slot of a key: CRC-16 (XMODEM) of its hash tag, if it has one.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&b| b == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&b| b == b'}') {
        Some(len) if len > 0 => &rest[..len],
        _ => key,
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

/// A key in this slot with this name.
pub fn key_in(slot: u16, name: &str) -> String {
    (0u32..)
        .map(|n| format!("{{{n}}}{name}"))
        .find(|key| slot_of(key.as_bytes()) == slot)
        .expect("each slot has tags")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), 8363);
        assert_eq!(slot_of(key_in(16383, "x").as_bytes()), 16383);
    }
}
