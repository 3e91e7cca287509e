//! Sizes as the allocator rounds them, for accounts of memory that are kept without asking it.

/// Bytes that the allocator hands out for an allocation of so many: its classes, about.
pub const fn heap(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=8 => 8,
        9..=128 => (bytes + 15) & !15,
        _ => {
            // Four classes between two powers of two.
            let step = bytes.next_power_of_two() / 8;
            if bytes.is_power_of_two() { bytes } else { bytes.div_ceil(step) * step }
        }
    }
}

/// Bytes of an entry in a hash map beside its key and value: the share of places that are free, about.
pub const fn map_entry(bytes: usize) -> usize {
    // Between 7/16 and 7/8 of the places are taken, each with a byte of its own.
    (bytes + 1) * 5 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_the_allocator() {
        let classes = [(0, 0), (1, 8), (9, 16), (17, 32), (33, 48), (128, 128), (129, 160)];
        for (bytes, class) in classes {
            assert_eq!(heap(bytes), class, "{bytes}");
        }
        let large = [(160, 160), (161, 192), (256, 256), (257, 320), (1025, 1280), (4096, 4096)];
        for (bytes, class) in large {
            assert_eq!(heap(bytes), class, "{bytes}");
        }
    }
}
