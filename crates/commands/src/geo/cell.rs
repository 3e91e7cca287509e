//! Places on the earth as scores, and the cells that contain them.
//!
//! Longitude and latitude are each scaled to a fraction of their range and truncated to 26 bits.
//! The bits of both are interleaved (G. M. Morton, 1966) into 52 bits, which a score holds exactly.
//! A place is in a cell of `step` bits per coordinate if its score begins with the cell's bits. So
//! the places of a cell are contiguous in score order.
//!
//! ```text
//!  score   .. lon25 lat25 lon24 lat24 ........ lon0 lat0
//!             └──────── cell of step 2 ──┘
//! ```
//!
//! Latitudes end where the Web Mercator map is a square. The largest longitude and latitude are
//! valid but scale to 2^26, one more than 26 bits hold. Such places have one extra bit.

/// The largest longitude (degrees); the smallest is its negative.
pub const LON_MAX: f64 = 180.0;
/// The largest latitude (degrees); the smallest is its negative.
pub const LAT_MAX: f64 = 85.05112878;
/// The latitude range of Geohash strings, which extends to the poles.
const GEOHASH_LAT_MAX: f64 = 90.0;

/// Bits of each coordinate in a score.
pub const STEP_MAX: u32 = 26;

/// A place in degrees east and north.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub lon: f64,
    pub lat: f64,
}

impl Place {
    /// Whether the place can be stored.
    pub fn is_valid(self) -> bool {
        self.lon.abs() <= LON_MAX && self.lat.abs() <= LAT_MAX
    }

    /// The place of a score: the centre of its smallest cell.
    #[inline]
    pub fn of_score(score: f64) -> Place {
        let (south_west, north_east) = Cell::of_bits(bits(score), STEP_MAX).corners();
        let middle = |low: f64, high: f64, end: f64| ((low + high) / 2.0).clamp(-end, end);
        Place {
            lon: middle(south_west.lon, north_east.lon, LON_MAX),
            lat: middle(south_west.lat, north_east.lat, LAT_MAX),
        }
    }

    /// The score of a valid place.
    pub fn score(self) -> f64 {
        Cell::around(self, STEP_MAX).bits() as f64
    }

    /// The Geohash string of eleven letters (G. Niemeyer, 2008): the same interleaving in base 32,
    /// with latitudes up to the poles. The bits beyond 52 are 0.
    pub fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::scaled(self, STEP_MAX, GEOHASH_LAT_MAX).bits();
        std::array::from_fn(|at| {
            let index =
                52u64.checked_sub(5 * (at as u64 + 1)).map_or(0, |shift| bits >> shift & 31);
            LETTERS[index as usize]
        })
    }
}

/// The integer part of a score. A score that another command has set may be no valid place. It is
/// converted as on x86: negative numbers wrap around.
fn bits(score: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    let cut = |x: f64| if (-HALF..HALF).contains(&x) { x as i64 } else { i64::MIN };
    match score {
        score if score < HALF => cut(score) as u64,
        score => cut(score - HALF) as u64 ^ (1 << 63),
    }
}

/// Spreads 32 bits: a zero follows each.
#[inline]
fn spread(bits: u32) -> u64 {
    let mut x = u64::from(bits);
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | x << 2) & 0x3333_3333_3333_3333;
    (x | x << 1) & 0x5555_5555_5555_5555
}

/// Every second bit, starting with the lowest.
#[inline]
fn gather(bits: u64) -> u32 {
    let mut x = bits & 0x5555_5555_5555_5555;
    x = (x | x >> 1) & 0x3333_3333_3333_3333;
    x = (x | x >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | x >> 4) & 0x00ff_00ff_00ff_00ff;
    x = (x | x >> 8) & 0x0000_ffff_0000_ffff;
    (x | x >> 16) as u32
}

/// One cell of a map of 2^step by 2^step cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Number from the west.
    lon: u32,
    /// Number from the south.
    lat: u32,
    step: u32,
}

impl Cell {
    fn of_bits(bits: u64, step: u32) -> Cell {
        Cell { lon: gather(bits >> 1), lat: gather(bits), step }
    }

    fn bits(self) -> u64 {
        spread(self.lat) | spread(self.lon) << 1
    }

    /// The cell of this size that contains a valid place.
    pub fn around(place: Place, step: u32) -> Cell {
        Cell::scaled(place, step, LAT_MAX)
    }

    fn scaled(place: Place, step: u32, lat_max: f64) -> Cell {
        let cells = (1u64 << step) as f64;
        let number = |x: f64, max: f64| ((x + max) / (max + max) * cells) as u32;
        Cell { lon: number(place.lon, LON_MAX), lat: number(place.lat, lat_max), step }
    }

    /// The south-western and the north-eastern corner.
    #[inline]
    pub fn corners(self) -> (Place, Place) {
        let cells = (1u64 << self.step) as f64;
        let degrees = |number: u32, max: f64| f64::from(number) / cells * (max + max) - max;
        let corner = |lon, lat| Place { lon: degrees(lon, LON_MAX), lat: degrees(lat, LAT_MAX) };
        let next = (self.lon.wrapping_add(1), self.lat.wrapping_add(1));
        (corner(self.lon, self.lat), corner(next.0, next.1))
    }

    /// The cell at this offset to the east and north; the map wraps around at its edges.
    pub fn moved(self, east: i32, north: i32) -> Cell {
        let mask = (1u32 << self.step) - 1;
        let number = |at: u32, by: i32| match by {
            0 => at,
            by => at.wrapping_add_signed(by) & mask,
        };
        Cell { lon: number(self.lon, east), lat: number(self.lat, north), step: self.step }
    }

    /// The score range of the cell: from the first number to below the second.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        let bits = self.bits();
        ((bits << shift) as f64, ((bits + 1) << shift) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_round_trips() {
        for (lon, lat, bits) in
            [(0, 0, 0), (1, 0, 2), (0, 1, 1), (3, 0, 10), (0xffff_ffff, 0, !0 / 3 * 2)]
        {
            let cell = Cell { lon, lat, step: 26 };
            assert_eq!(cell.bits(), bits);
            assert_eq!(Cell::of_bits(bits, 26), cell);
        }
    }

    /// Scores and places recorded from the reference server.
    #[test]
    fn scores_are_those_of_the_reference() {
        let place = Place { lon: 13.361389, lat: 38.115556 };
        assert_eq!(place.score(), 3_479_099_956_230_698.0);
        assert_eq!(&place.geohash(), b"sqc8b49rny0");
        let back = Place::of_score(3_479_099_956_230_698.0);
        assert_eq!((back.lon, back.lat), (13.361_389_338_970_184, 38.115_556_395_496_3));
        let edge = Place { lon: 180.0, lat: LAT_MAX };
        assert_eq!(edge.score(), 13_510_798_882_111_488.0);
        assert_eq!(Place::of_score(edge.score()), edge);
    }

    #[test]
    fn invalid_scores_convert_as_on_x86() {
        for (score, want) in [
            (-1.0, u64::MAX),
            (1.5, 1),
            (1e19, 10_000_000_000_000_000_000),
            (1e30, 0),
            (f64::INFINITY, 0),
            (f64::NEG_INFINITY, 1 << 63),
            (18_446_744_073_709_549_568.0, 18_446_744_073_709_549_568),
        ] {
            assert_eq!(bits(score), want, "{score}");
        }
    }

    #[test]
    fn cells_contain_their_places_and_border_each_other() {
        let place = Place { lon: -179.9, lat: 12.0 };
        for step in 1..=26 {
            let cell = Cell::around(place, step);
            let (low, high) = cell.scores();
            assert!((low..high).contains(&place.score()), "{step}");
            let (south_west, north_east) = cell.corners();
            assert!((south_west.lon..north_east.lon).contains(&place.lon));
            assert!((south_west.lat..north_east.lat).contains(&place.lat));
            assert_eq!(cell.moved(1, -1).moved(-1, 1), cell);
        }
        let west = Cell::around(place, 3).moved(-1, 0).corners();
        assert_eq!(west.1.lon, 180.0, "the map is round");
    }
}
