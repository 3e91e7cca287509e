//! Parses the arguments of a search.
//!
//! Words are parsed from left to right, and the first invalid one gives the error: a malformed
//! number as well as a missing member. Conflicts between words are checked afterwards. If the key
//! does not exist, members are not looked up.

use super::cell::Place;
use super::shape::{Area, Shape};
use super::{member_place, unit};
use crate::error::{Error, NOT_A_FLOAT, NOT_AN_INTEGER, SYNTAX};
use weft_base::num::{parse_f64, parse_i64};
use weft_types::zset::View;

const NO_RADIUS: Error = Error::new("ERR need numeric radius");
const NO_WIDTH: Error = Error::new("ERR need numeric width");
const NO_HEIGHT: Error = Error::new("ERR need numeric height");
const NEGATIVE_RADIUS: Error = Error::new("ERR radius cannot be negative");
const NEGATIVE_BOX: Error = Error::new("ERR height or width cannot be negative");
const BAD_COUNT: Error = Error::new("ERR COUNT must be > 0");
const NO_COUNT: Error = Error::new("ERR the ANY argument requires COUNT argument");
const BAD_VERTICES: Error = Error::new("ERR invalid number of vertices");
const FEW_VERTICES: Error = Error::new("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// GEORADIUS or GEORADIUSBYMEMBER, and whether it may store.
    Radius {
        member: bool,
        stores: bool,
    },
    Search,
    SearchStore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceOrder {
    Near,
    Far,
}

/// The destination of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The argument position of the key.
    pub key: usize,
    /// Store distances as scores.
    pub distances: bool,
}

/// The parsed arguments.
#[derive(Debug)]
pub struct Request {
    /// `None` when the key does not exist.
    pub shape: Option<Shape>,
    pub target: Option<Target>,
    pub with_coord: bool,
    pub with_dist: bool,
    pub with_hash: bool,
    pub order: Option<DistanceOrder>,
    /// The maximum number of results.
    pub count: Option<usize>,
    /// Return any matches, not the nearest.
    pub any: bool,
}

/// The words after the key that describe the area.
#[derive(Default)]
struct AreaWords {
    centre: Option<Place>,
    /// Whether FROMMEMBER or FROMLONLAT was given.
    member: bool,
    place: bool,
    /// The area and its unit in metres.
    area: Option<(Area, f64)>,
}

/// Parses a place. The error quotes it.
pub fn place(lon: &[u8], lat: &[u8]) -> Result<Place, Error> {
    let number = |text| parse_f64(text).ok_or(NOT_A_FLOAT);
    let place = Place { lon: number(lon)?, lat: number(lat)? };
    if !place.is_valid() {
        let Place { lon, lat } = place;
        return Err(Error::owned(format!("ERR invalid longitude,latitude pair {lon:.6},{lat:.6}")));
    }
    Ok(place)
}

fn circle(radius: &[u8], name: &[u8]) -> Result<(Area, f64), Error> {
    let radius = parse_f64(radius).ok_or(NO_RADIUS)?;
    if radius < 0.0 {
        return Err(NEGATIVE_RADIUS);
    }
    Ok((Area::Circle { radius }, unit(name)?))
}

fn rectangle(width: &[u8], height: &[u8], name: &[u8]) -> Result<(Area, f64), Error> {
    let width = parse_f64(width).ok_or(NO_WIDTH)?;
    let height = parse_f64(height).ok_or(NO_HEIGHT)?;
    if width < 0.0 || height < 0.0 {
        return Err(NEGATIVE_BOX);
    }
    Ok((Area::Box { width, height }, unit(name)?))
}

/// Parses the number of corners and the corners. Also returns the words after them.
fn polygon<'s, 'a>(words: &'s [&'a [u8]]) -> Result<(Area, &'s [&'a [u8]]), Error> {
    let count = parse_i64(words[0]).and_then(|count| i32::try_from(count).ok());
    let count = usize::try_from(count.ok_or(BAD_VERTICES)?).map_err(|_| FEW_VERTICES)?;
    if count < 3 || words.len() - 1 < 2 * count {
        return Err(FEW_VERTICES);
    }
    let (corners, rest) = words[1..].split_at(2 * count);
    let corners: Result<_, _> =
        corners.chunks_exact(2).map(|pair| place(pair[0], pair[1])).collect();
    Ok((Area::Polygon(corners?), rest))
}

/// The place of a member.
fn member(set: View<'_>, member: &[u8]) -> Result<Place, Error> {
    member_place(set, member).ok_or_else(|| {
        // The reference builds the message from a C string, which ends at a NUL byte.
        let seen = member.split(|byte| *byte == 0).next().unwrap_or_default();
        Error::owned([b"ERR member ", seen, b" does not exist"].concat())
    })
}

impl Request {
    /// Parses `args`, all arguments of the command. `set` is the key's value, if it exists.
    pub fn parse(form: Form, args: &[&[u8]], set: Option<View<'_>>) -> Result<Request, Error> {
        let mut request = Request {
            shape: None,
            target: None,
            with_coord: false,
            with_dist: false,
            with_hash: false,
            order: None,
            count: None,
            any: false,
        };
        let mut place_of = AreaWords::default();
        let words = match form {
            Form::Radius { member: false, .. } => {
                place_of.centre = Some(place(args[2], args[3])?);
                place_of.area = Some(circle(args[4], args[5])?);
                &args[6..]
            }
            Form::Radius { member: true, .. } => {
                if let Some(set) = set {
                    place_of.centre = Some(member(set, args[2])?);
                    place_of.area = Some(circle(args[3], args[4])?);
                }
                &args[5..]
            }
            Form::Search => &args[2..],
            Form::SearchStore => {
                request.target = Some(Target { key: 1, distances: false });
                &args[3..]
            }
        };
        request.read(form, args.len(), words, set, &mut place_of)?;
        request.check(form, args[0], &place_of)?;
        request.shape = match (set, place_of) {
            (Some(_), AreaWords { centre, area: Some((area, unit)), .. }) => {
                // A polygon has its own centre.
                let centre = centre.unwrap_or(Place { lon: 0.0, lat: 0.0 });
                Some(Shape::new(area, centre, unit))
            }
            _ => None,
        };
        Ok(request)
    }

    /// Parses the options; `argc` is the number of all arguments.
    fn read(
        &mut self,
        form: Form,
        argc: usize,
        mut words: &[&[u8]],
        set: Option<View<'_>>,
        at: &mut AreaWords,
    ) -> Result<(), Error> {
        let may_store = matches!(form, Form::Radius { stores: true, .. });
        let search = matches!(form, Form::Search | Form::SearchStore);
        let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        while let [word, rest @ ..] = words {
            let is = |name: &str| is(word, name);
            let polygonal = matches!(at.area, Some((Area::Polygon(_), _)));
            let circular = matches!(at.area, None | Some((Area::Circle { .. }, _)));
            let boxed = matches!(at.area, None | Some((Area::Box { .. }, _)));
            words = match rest {
                rest if is("withdist") => {
                    self.with_dist = true;
                    rest
                }
                rest if is("withhash") => {
                    self.with_hash = true;
                    rest
                }
                rest if is("withcoord") => {
                    self.with_coord = true;
                    rest
                }
                rest if is("any") => {
                    self.any = true;
                    rest
                }
                rest if is("asc") => {
                    self.order = Some(DistanceOrder::Near);
                    rest
                }
                rest if is("desc") => {
                    self.order = Some(DistanceOrder::Far);
                    rest
                }
                [count, rest @ ..] if is("count") => {
                    let count = parse_i64(count).ok_or(NOT_AN_INTEGER)?;
                    let count = usize::try_from(count).ok().filter(|count| *count > 0);
                    self.count = Some(count.ok_or(BAD_COUNT)?);
                    rest
                }
                [_, rest @ ..] if may_store && (is("store") || is("storedist")) => {
                    let distances = is("storedist");
                    self.target = Some(Target { key: argc - rest.len() - 1, distances });
                    rest
                }
                [name, rest @ ..] if search && is("frommember") && !at.place && !polygonal => {
                    if let Some(set) = set {
                        at.centre = Some(member(set, name)?);
                    }
                    at.member = true;
                    rest
                }
                [lon, lat, rest @ ..] if search && is("fromlonlat") && !at.member && !polygonal => {
                    at.centre = Some(place(lon, lat)?);
                    at.place = true;
                    rest
                }
                [radius, unit, rest @ ..] if search && is("byradius") && circular => {
                    at.area = Some(circle(radius, unit)?);
                    rest
                }
                [width, height, unit, rest @ ..] if search && is("bybox") && boxed => {
                    at.area = Some(rectangle(width, height, unit)?);
                    rest
                }
                [_, _, ..]
                    if search
                        && is("bypolygon")
                        && (at.area.is_none() || polygonal)
                        && !at.member
                        && !at.place =>
                {
                    let (area, rest) = polygon(rest)?;
                    at.area = Some((area, 1.0));
                    rest
                }
                rest if form == Form::SearchStore && is("storedist") => {
                    self.target = Some(Target { key: 1, distances: true });
                    rest
                }
                _ => return Err(SYNTAX),
            };
        }
        Ok(())
    }

    /// Checks the words for conflicts.
    fn check(&self, form: Form, name: &[u8], at: &AreaWords) -> Result<(), Error> {
        let search = matches!(form, Form::Search | Form::SearchStore);
        if self.target.is_some() && (self.with_dist || self.with_hash || self.with_coord) {
            let what = match form {
                Form::SearchStore => "GEOSEARCHSTORE",
                Form::Search | Form::Radius { .. } => "STORE option in GEORADIUS",
            };
            return Err(Error::owned(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let polygonal = matches!(at.area, Some((Area::Polygon(_), _)));
        let one_of = |what: &[u8]| {
            let text = [b"ERR exactly one of ", what, b" can be specified for ", name].concat();
            Err(Error::owned(text))
        };
        if search && !at.member && !at.place && !polygonal {
            return one_of(b"FROMMEMBER or FROMLONLAT");
        }
        if search && at.area.is_none() {
            return one_of(b"BYRADIUS, BYBOX and BYPOLYGON");
        }
        if self.any && self.count.is_none() {
            return Err(NO_COUNT);
        }
        Ok(())
    }
}
