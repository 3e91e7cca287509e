//! The allocator's rounding of sizes, for accounts of memory that don't query it.

/// Approximate bytes that the allocator uses for an allocation of `bytes`: its size classes.
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

/// Approximate bytes of an entry in a hash map with `bytes` of key and value, including its share
/// of free places.
pub const fn map_entry(bytes: usize) -> usize {
    // Between 7/16 and 7/8 of the places are in use, each with a control byte.
    (bytes + 1) * 5 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_allocators_size_classes() {
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
