//! Distances on a sphere, search shapes, and the cells that cover them.
//!
//! Every formula is computed in the same steps as in the reference. Distances are returned to a
//! tenth of a millimetre and stored with all digits, so the order of operations is visible.

use super::cell::{Cell, LAT_MAX, LON_MAX, Place, STEP_MAX};

/// Radius of the earth as a sphere (metres).
const EARTH: f64 = 6_372_797.560856;
/// Half the side of the Mercator square (metres), which is the side of cells of step 1.
const MERCATOR_MAX: f64 = 20_037_726.37;
const DEGREE: f64 = std::f64::consts::PI / 180.0;

/// The distance between two latitudes (metres).
fn lat_distance(a: f64, b: f64) -> f64 {
    EARTH * (a * DEGREE - b * DEGREE).abs()
}

/// The great-circle distance between two places (metres), by the haversine formula. For many
/// distances from one centre, pass it as `from`: the compiler then hoists its terms out of the
/// loop.
#[inline]
pub fn distance(from: Place, to: Place) -> f64 {
    match haversine(from, to) {
        Some(haversine) => arc(haversine),
        None => lat_distance(to.lat, from.lat),
    }
}

/// Twice the arc whose half has this squared sine. Rounding may give a square above 1, for which no
/// arc exists.
#[inline]
fn arc(haversine: f64) -> f64 {
    2.0 * EARTH * haversine.sqrt().min(1.0).asin()
}

/// The squared sine of half the arc between two places. `None` if they are on one meridian: the
/// distance then follows from the latitudes.
#[inline]
fn haversine(from: Place, to: Place) -> Option<f64> {
    let v = ((to.lon * DEGREE - from.lon * DEGREE) / 2.0).sin();
    if v == 0.0 {
        return None;
    }
    let (from_lat, to_lat) = (from.lat * DEGREE, to.lat * DEGREE);
    let u = ((to_lat - from_lat) / 2.0).sin();
    Some(u * u + from_lat.cos() * to_lat.cos() * v * v)
}

/// The searched area, in the unit of the request.
#[derive(Clone, Debug, PartialEq)]
pub enum Area {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
    Polygon(Vec<Place>),
}

/// An area and its centre.
#[derive(Clone, Debug)]
pub struct Shape {
    pub area: Area,
    /// The origin of distances: the centre, or the centroid of a polygon.
    pub centre: Place,
    /// Metres in the unit of the request.
    pub unit: f64,
    /// A place beyond these bounds is certainly outside of the circle.
    far: OuterBounds,
}

/// Bounds that save the expensive half of the formula for most places outside of a circle. Both are
/// a metre beyond the radius, more than any rounding error. Places in between are computed exactly.
#[derive(Clone, Copy, Debug)]
struct OuterBounds {
    /// Difference of the latitudes alone (metres).
    lat: f64,
    haversine: f64,
}

impl OuterBounds {
    fn outside_of(radius: f64) -> OuterBounds {
        let half = (radius + 1.0) / (2.0 * EARTH);
        let covers_earth = half >= std::f64::consts::FRAC_PI_2;
        let haversine = if covers_earth { f64::INFINITY } else { half.sin().powi(2) + 1e-15 };
        OuterBounds { lat: radius + 1.0, haversine }
    }
}

/// The south-western and the north-eastern corner of a bounding box, which may extend beyond the
/// map.
type Corners = (Place, Place);

impl Shape {
    /// Creates a shape. A polygon computes its own centre from its corners.
    pub fn new(area: Area, centre: Place, unit: f64) -> Shape {
        let (centre, far) = match &area {
            Area::Circle { radius } => (centre, OuterBounds::outside_of(radius * unit)),
            Area::Box { .. } => (centre, OuterBounds::outside_of(f64::INFINITY)),
            Area::Polygon(vertices) => (centroid(vertices), OuterBounds::outside_of(f64::INFINITY)),
        };
        Shape { area, centre, unit, far }
    }

    /// The cost of testing one place, in elements.
    pub fn cost(&self) -> usize {
        match &self.area {
            Area::Circle { .. } => 2,
            Area::Box { .. } => 4,
            Area::Polygon(vertices) => 2 + vertices.len() / 8,
        }
    }

    /// The distance of a place from the centre (metres), if the place is inside.
    #[inline]
    pub fn distance_inside(&self, place: Place) -> Option<f64> {
        match &self.area {
            Area::Circle { radius } => {
                if lat_distance(place.lat, self.centre.lat) > self.far.lat {
                    return None;
                }
                let distance = match haversine(self.centre, place) {
                    Some(haversine) if haversine > self.far.haversine => return None,
                    Some(haversine) => arc(haversine),
                    None => lat_distance(place.lat, self.centre.lat),
                };
                (distance <= radius * self.unit).then_some(distance)
            }
            Area::Box { width, height } => {
                let beside = Place { lon: self.centre.lon, lat: place.lat };
                let inside = lat_distance(place.lat, self.centre.lat) <= height * self.unit / 2.0
                    && distance(place, beside) <= width * self.unit / 2.0;
                inside.then(|| distance(self.centre, place))
            }
            Area::Polygon(vertices) => {
                is_inside(vertices, place).then(|| distance(self.centre, place))
            }
        }
    }

    fn corners(&self) -> Corners {
        let (width, height) = match &self.area {
            Area::Circle { radius } => (radius * self.unit, radius * self.unit),
            Area::Box { width, height } => (width * self.unit / 2.0, height * self.unit / 2.0),
            Area::Polygon(vertices) => return enclosing(vertices),
        };
        let Place { lon, lat } = self.centre;
        let up = height / EARTH / DEGREE;
        // The edge nearer to the pole spans more degrees.
        let edge = if lat < 0.0 { lat - up } else { lat + up };
        let aside = width / EARTH / (edge * DEGREE).cos() / DEGREE;
        (Place { lon: lon - aside, lat: lat - up }, Place { lon: lon + aside, lat: lat + up })
    }

    /// The radius of a circle around the centre that contains the shape (metres).
    fn enclosing_radius(&self, corners: &Corners) -> f64 {
        match &self.area {
            Area::Circle { radius } => radius * self.unit,
            Area::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt() * self.unit
            }
            Area::Polygon(_) => {
                let (low, high) = corners;
                let far = |lon, lat| distance(self.centre, Place { lon, lat });
                let north = far(low.lon, high.lat).max(far(high.lon, high.lat));
                north.max(far(low.lon, low.lat)).max(far(high.lon, low.lat))
            }
        }
    }

    /// The cells that may contain places of the shape, in search order.
    pub fn cells(&self) -> Vec<Cell> {
        let corners = self.corners();
        let (low, high) = corners;
        // The centroid of a polygon may be nearer to a pole than all its corners, and off the map.
        // Then the whole map is searched, which is four cells.
        let (centre, mut step) = match self.centre.is_valid() {
            true => (self.centre, step_for(self.enclosing_radius(&corners), self.centre.lat)),
            false => {
                let lat = self.centre.lat.clamp(-LAT_MAX, LAT_MAX);
                (Place { lon: self.centre.lon.clamp(-LON_MAX, LON_MAX), lat }, 1)
            }
        };
        let mut cell = Cell::around(centre, step);
        let corner_of = |east, north| cell.moved(east, north).corners();
        let too_near = corner_of(0, 1).1.lat < high.lat
            || corner_of(0, -1).0.lat > low.lat
            || corner_of(1, 0).1.lon < high.lon
            || corner_of(-1, 0).0.lon > low.lon;
        if step > 1 && too_near {
            step -= 1;
            cell = Cell::around(centre, step);
        }
        let (south_west, north_east) = cell.corners();
        // In these directions the centre cell covers the shape. (On a map of two by two cells, each
        // neighbour is also the neighbour on the other side.)
        let some = step >= 2;
        let no_south = some && south_west.lat < low.lat;
        let no_north = some && north_east.lat > high.lat;
        let no_west = some && south_west.lon < low.lon;
        let no_east = some && north_east.lon > high.lon;
        let mut cells = vec![cell];
        for (east, north) in [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)]
        {
            let useless = (north < 0 && no_south)
                || (north > 0 && no_north)
                || (east < 0 && no_west)
                || (east > 0 && no_east);
            let cell = cell.moved(east, north);
            // Cells of half the map occur twice, one directly after the other.
            if !useless && (cells.len() == 1 || cells.last() != Some(&cell)) {
                cells.push(cell);
            }
        }
        cells
    }
}

/// The largest step at which a cell and its neighbours cover a circle of this radius (metres).
fn step_for(mut radius: f64, lat: f64) -> u32 {
    if radius == 0.0 {
        return STEP_MAX;
    }
    let mut step = 1;
    while radius < MERCATOR_MAX {
        radius *= 2.0;
        step += 1;
    }
    // Subtract one for the position of the centre in its cell and one because it may be at a
    // border. Subtract more towards the poles, where cells are narrow.
    step -= 2 + i32::from(lat.abs() > 66.0) + i32::from(lat.abs() > 80.0);
    step.clamp(1, STEP_MAX as i32) as u32
}

fn enclosing(vertices: &[Place]) -> Corners {
    let mut low = Place { lon: LON_MAX, lat: LAT_MAX };
    let mut high = Place { lon: -LON_MAX, lat: -LAT_MAX };
    for Place { lon, lat } in vertices {
        low = Place { lon: low.lon.min(*lon), lat: low.lat.min(*lat) };
        high = Place { lon: high.lon.max(*lon), lat: high.lat.max(*lat) };
    }
    (low, high)
}

/// The direction of the sum of the corners, as vectors from the centre of the earth.
fn centroid(vertices: &[Place]) -> Place {
    let (mut x, mut y, mut z) = (0.0f64, 0.0f64, 0.0f64);
    for vertex in vertices {
        let (lon, lat) = (vertex.lon * DEGREE, vertex.lat * DEGREE);
        x += lat.cos() * lon.cos();
        y += lat.cos() * lon.sin();
        z += lat.sin();
    }
    let lat = z.atan2((x * x + y * y).sqrt());
    Place { lon: y.atan2(x) / DEGREE, lat: lat / DEGREE }
}

/// Whether a ray from `place` to the east crosses the polygon's edges an odd number of times (M.
/// Shimrat, CACM 5, 1962). Degrees are used as plane coordinates.
fn is_inside(vertices: &[Place], place: Place) -> bool {
    let previous = vertices.iter().cycle().skip(vertices.len() - 1);
    let crossings = vertices.iter().zip(previous).filter(|(a, b)| {
        (a.lat > place.lat) != (b.lat > place.lat)
            && place.lon < (b.lon - a.lon) * (place.lat - a.lat) / (b.lat - a.lat) + a.lon
    });
    crossings.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::rng::Rng;

    fn place(rng: &mut Rng) -> Place {
        let part = |rng: &mut Rng| 2.0 * rng.next_f64() - 1.0;
        Place { lon: part(rng) * LON_MAX, lat: part(rng) * LAT_MAX }
    }

    #[test]
    fn distances_are_those_of_the_reference() {
        let palermo = Place::of_score(3_479_099_956_230_698.0);
        let catania = Place::of_score(3_479_447_370_796_909.0);
        assert_eq!(format!("{:.4}", distance(palermo, catania)), "166274.1516");
        assert_eq!(distance(palermo, palermo), 0.0);
    }

    #[test]
    fn antipodes_have_a_distance() {
        let mut rng = Rng::new(3);
        for _ in 0..100_000 {
            let a = place(&mut rng);
            let b = Place { lon: a.lon - 180.0 * a.lon.signum(), lat: -a.lat };
            let half = EARTH * std::f64::consts::PI;
            assert!((distance(a, b) - half).abs() < 1.0, "{a:?}");
        }
    }

    /// The early exits agree with the complete formula.
    #[test]
    fn early_exits_agree_with_the_formula() {
        let mut rng = Rng::new(4);
        let mut inside = 0;
        for round in 0..400 {
            let centre = place(&mut rng);
            let radius = 10f64.powf(rng.next_f64() * 5.0 + 2.5);
            let shape = Shape::new(Area::Circle { radius }, centre, 1.0);
            for _ in 0..500 {
                let mut other = place(&mut rng);
                if round % 2 == 0 {
                    let near = radius / 50_000.0;
                    let lat = centre.lat + (other.lat / LAT_MAX) * near;
                    other = Place { lon: centre.lon + (other.lon / LON_MAX) * near, lat };
                }
                if !other.is_valid() {
                    continue;
                }
                let whole = distance(centre, other);
                let found = shape.distance_inside(other);
                assert_eq!(
                    found,
                    (whole <= radius).then_some(whole),
                    "{centre:?} {other:?} {radius}"
                );
                inside += usize::from(found.is_some());
            }
        }
        assert!(inside > 10_000, "{inside}");
    }

    /// Away from the poles, the cells cover every place inside.
    #[test]
    fn cells_cover_circles() {
        let mut rng = Rng::new(8);
        for _ in 0..2000 {
            let centre = Place { lat: place(&mut rng).lat / 1.5, ..place(&mut rng) };
            let radius = 10f64.powf(rng.next_f64() * 5.0);
            let shape = Shape::new(Area::Circle { radius }, centre, 1.0);
            let cells = shape.cells();
            assert!((1..=9).contains(&cells.len()));
            for _ in 0..20 {
                let near = 2.0 * radius / 111_000.0;
                let delta = place(&mut rng);
                let other = Place {
                    lon: centre.lon + delta.lon / LON_MAX * near,
                    lat: centre.lat + delta.lat / LAT_MAX * near,
                };
                if !other.is_valid() || shape.distance_inside(other).is_none() {
                    continue;
                }
                let score = other.score();
                let covered = cells.iter().any(|cell| {
                    let (low, high) = cell.scores();
                    (low..high).contains(&score)
                });
                assert!(covered, "{centre:?} {radius} {other:?}");
            }
        }
    }

    #[test]
    fn polygons_contain_places_between_their_edges() {
        let corner = |lon, lat| Place { lon, lat };
        // An L.
        let l = [(0.0, 0.0), (4.0, 0.0), (4.0, 1.0), (1.0, 1.0), (1.0, 4.0), (0.0, 4.0)];
        let l: Vec<Place> = l.iter().map(|(lon, lat)| corner(*lon, *lat)).collect();
        for (lon, lat, inside) in [
            (0.5, 0.5, true),
            (3.0, 0.5, true),
            (0.5, 3.0, true),
            (3.0, 3.0, false),
            (5.0, 0.5, false),
        ] {
            assert_eq!(is_inside(&l, corner(lon, lat)), inside, "{lon} {lat}");
        }
        let round = [(-120.0, 84.0), (0.0, 84.0), (120.0, 84.0)].map(|(lon, lat)| corner(lon, lat));
        let shape = Shape::new(Area::Polygon(round.to_vec()), corner(0.0, 0.0), 1.0);
        assert!(shape.centre.lat > 89.0);
        let mut cells = shape.cells();
        cells.dedup();
        assert_eq!(cells.len(), 4, "the whole map");
    }
}
