//! GEOSEARCH and the GEORADIUS family: return or store the members in an area.
//!
//! The map is divided into cells whose size depends on the area. The cell of the centre and its
//! eight neighbours cover the area. The members of a cell are a range of scores. Each member in
//! these ranges is decoded and tested against the area.

use super::cell::Place;
use super::order::sort_first;
use super::request::{DistanceOrder, Form, Request, Target};
use super::shape::Shape;
use super::{write_coordinates, write_distance};
use crate::ctx::{Ctx, Meter};
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use crate::zset::range::store_elements;
use crate::zset::zset;
use std::cmp::Ordering;
use weft_command_spec::key_options::names_destination;
use weft_command_spec::{Begin, Find, Flags, GetKeys, Group, KeySpec, Spec, Special};
use weft_types::string::Digits;
use weft_types::zset::{Range, ScoreEnd, Span, View};

const SOURCE: KeySpec = KeySpec {
    flags: &["RO", "ACCESS"],
    begin: Begin::Index(1),
    find: Find::Range { last: 0, step: 1, limit: 0 },
    notes: "",
};
const DESTINATION: KeySpec = KeySpec { flags: &["OW", "UPDATE"], ..SOURCE };

const fn stored(word: &'static str, start: i16) -> KeySpec {
    KeySpec {
        flags: &["OW", "UPDATE", "VARIABLE_FLAGS"],
        begin: Begin::Keyword { word, start },
        ..SOURCE
    }
}

pub const GEOSEARCH: Command = Command {
    spec: Spec {
        name: "geosearch",
        arity: -7,
        flags: Flags::READONLY,
        keys: &[SOURCE],
        acl: &[],
        group: Group::Geo,
        since: "6.2.0",
        summary: "Returns the members in a circle, a box or a polygon.",
        complexity: "O(N+log(M)) for N members in the cells around the area, of M in the set.",
        syntax: "key \
                 [from=(FROMMEMBER member|FROMLONLAT fromlonlat=(longitude:double latitude:double))] \
                 by=(circle=(BYRADIUS radius:double unit=(m=M|km=KM|ft=FT|mi=MI))\
                 |box=(BYBOX width:double height:double unit=(m=M|km=KM|ft=FT|mi=MI))\
                 |polygon=(BYPOLYGON num-vertices:integer \
                 vertices=(longitude:double latitude:double)...)@9.0.0) \
                 [order=(asc=ASC|desc=DESC)] [count-block=(COUNT count:integer [any=ANY])] \
                 [withcoord=WITHCOORD] [withdist=WITHDIST] [withhash=WITHHASH]",
        history: &[("7.0.0", "Units in upper case."), ("9.0.0", "The option BYPOLYGON.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| search(ctx, Form::Search, 1),
    subcommands: &[],
};

pub const GEOSEARCHSTORE: Command = Command {
    spec: Spec {
        name: "geosearchstore",
        arity: -8,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[DESTINATION, KeySpec { begin: Begin::Index(2), ..SOURCE }],
        summary: "Stores in a key the members in a circle, a box or a polygon.",
        syntax: "destination:key source:key \
                 [from=(FROMMEMBER member|FROMLONLAT fromlonlat=(longitude:double latitude:double))] \
                 by=(circle=(BYRADIUS radius:double unit=(m=M|km=KM|ft=FT|mi=MI))\
                 |box=(BYBOX width:double height:double unit=(m=M|km=KM|ft=FT|mi=MI))\
                 |polygon=(BYPOLYGON num-vertices:integer \
                 vertices=(longitude:double latitude:double)...)@9.0.0) \
                 [order=(asc=ASC|desc=DESC)] [count-block=(COUNT count:integer [any=ANY])] \
                 [storedist=STOREDIST]",
        special: Special::NONE,
        ..GEOSEARCH.spec
    },
    run: |ctx| search(ctx, Form::SearchStore, 2),
    ..GEOSEARCH
};

pub const GEORADIUS: Command = Command {
    spec: Spec {
        name: "georadius",
        arity: -6,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
        keys: &[SOURCE, stored("STORE", 6), stored("STOREDIST", 6)],
        since: "3.2.0",
        summary: "Returns or stores the members in a circle around a place.",
        syntax: "key longitude:double latitude:double radius:double \
                 unit=(m=M|km=KM|ft=FT|mi=MI) [withcoord=WITHCOORD] [withdist=WITHDIST] \
                 [withhash=WITHHASH] [count-block=(COUNT count:integer [any=ANY]@6.2.0)] \
                 [order=(asc=ASC|desc=DESC)] \
                 [store=(STORE storekey:key<key>|STOREDIST storedistkey:key<key>)]",
        history: &[("6.2.0", "The option ANY."), ("7.0.0", "Units in upper case.")],
        special: Special::get_keys(GetKeys::GeoStore),
        ..GEOSEARCH.spec
    },
    lock: Lock::Named(keys),
    run: |ctx| search(ctx, Form::Radius { member: false, stores: true }, 1),
    ..GEOSEARCH
};

pub const GEORADIUS_RO: Command = Command {
    spec: Spec {
        name: "georadius_ro",
        flags: Flags::READONLY,
        keys: &[SOURCE],
        since: "3.2.10",
        summary: "Returns the members in a circle around a place.",
        syntax: "key longitude:double latitude:double radius:double \
                 unit=(m=M|km=KM|ft=FT|mi=MI) [withcoord=WITHCOORD] [withdist=WITHDIST] \
                 [withhash=WITHHASH] [count-block=(COUNT count:integer [any=ANY]@6.2.0)] \
                 [order=(asc=ASC|desc=DESC)]",
        special: Special::NONE,
        ..GEORADIUS.spec
    },
    run: |ctx| search(ctx, Form::Radius { member: false, stores: false }, 1),
    ..GEOSEARCH
};

pub const GEORADIUSBYMEMBER: Command = Command {
    spec: Spec {
        name: "georadiusbymember",
        arity: -5,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
        keys: &[SOURCE, stored("STORE", 5), stored("STOREDIST", 5)],
        summary: "Returns or stores the members in a circle around one of them.",
        syntax: "key member radius:double \
                 unit=(m=M|km=KM|ft=FT|mi=MI) [withcoord=WITHCOORD] [withdist=WITHDIST] \
                 [withhash=WITHHASH] [count-block=(COUNT count:integer [any=ANY])] \
                 [order=(asc=ASC|desc=DESC)] \
                 [store=(STORE storekey:key<key>|STOREDIST storedistkey:key<key>)]",
        special: Special::get_keys(GetKeys::GeoStore),
        ..GEORADIUS.spec
    },
    run: |ctx| search(ctx, Form::Radius { member: true, stores: true }, 1),
    ..GEORADIUS
};

pub const GEORADIUSBYMEMBER_RO: Command = Command {
    spec: Spec {
        name: "georadiusbymember_ro",
        arity: -5,
        flags: Flags::READONLY,
        summary: "Returns the members in a circle around one of them.",
        syntax: "key member radius:double \
                 unit=(m=M|km=KM|ft=FT|mi=MI) [withcoord=WITHCOORD] [withdist=WITHDIST] \
                 [withhash=WITHHASH] [count-block=(COUNT count:integer [any=ANY])] \
                 [order=(asc=ASC|desc=DESC)]",
        special: Special::NONE,
        ..GEORADIUS_RO.spec
    },
    run: |ctx| search(ctx, Form::Radius { member: true, stores: false }, 1),
    ..GEOSEARCH
};

/// The possible keys of GEORADIUS or GEORADIUSBYMEMBER. With several destinations the last one
/// counts, but the command holds all of them.
fn keys(args: &[&[u8]]) -> Option<Vec<usize>> {
    let named = (5..args.len().saturating_sub(1)).filter(|at| names_destination(args[*at]));
    Some(std::iter::once(1).chain(named.map(|at| at + 1)).collect())
}

/// A member in the area.
#[derive(Clone, Copy, Debug)]
struct Match {
    /// The range of its bytes in [`Matches::text`].
    from: usize,
    to: usize,
    place: Place,
    score: f64,
    /// Distance from the centre (metres).
    distance: f64,
}

#[derive(Debug, Default)]
struct Matches {
    text: Vec<u8>,
    found: Vec<Match>,
}

impl Matches {
    fn member(&self, found: &Match) -> &[u8] {
        &self.text[found.from..found.to]
    }

    /// Examines the elements of `set` in `spans`, in order, until it has found `most` or `meter`
    /// runs out.
    fn collect(
        set: View<'_>,
        spans: &[Span],
        shape: &Shape,
        most: usize,
        meter: &mut Meter,
    ) -> Matches {
        /// A walk cannot be stopped, so it covers only this many elements at a time.
        const PART: usize = 64;
        let mut matches = Matches::default();
        let mut room = Digits::new();
        for span in spans {
            let part = if most == usize::MAX { span.count.max(1) } else { PART };
            for skipped in (0..span.count).step_by(part) {
                if matches.found.len() >= most || meter.is_exhausted() {
                    return matches;
                }
                let count = part.min(span.count - skipped);
                let part = Span { skip: span.skip + skipped, count };
                set.walk(part, false, |member, score| {
                    if matches.found.len() >= most || !meter.step() {
                        return;
                    }
                    let place = Place::of_score(score);
                    let Some(distance) = shape.distance_inside(place) else { return };
                    let from = matches.text.len();
                    matches.text.extend_from_slice(member.bytes(&mut room));
                    let to = matches.text.len();
                    matches.found.push(Match { from, to, place, score, distance });
                });
            }
        }
        matches
    }
}

/// The elements of `set` in the cells around the shape, cell by cell.
fn spans(set: View<'_>, shape: &Shape) -> Vec<Span> {
    let cells = shape.cells().into_iter().map(|cell| {
        let (low, high) = cell.scores();
        let range = Range::Score {
            min: ScoreEnd { score: low, exclusive: false },
            max: ScoreEnd { score: high, exclusive: true },
        };
        set.select(&range, false, 0, None)
    });
    cells.filter(|span| span.count > 0).collect()
}

fn search(ctx: &mut Ctx<'_>, form: Form, key: usize) -> CmdResult {
    // A polygon may have as many corners as the request has arguments.
    ctx.weigh_args()?;
    let key = ctx.key(key);
    let record = ctx.db.read(&key);
    let set = match &record {
        Some(record) => Some(zset(record)?),
        None => None,
    };
    let request = Request::parse(form, ctx.args, set)?;
    let mut matches = Matches::default();
    if let (Some(set), Some(shape)) = (set, &request.shape) {
        let spans = spans(set, shape);
        let elements: usize = spans.iter().map(|span| span.count).sum();
        let work = elements.saturating_mul(shape.cost());
        let most = request.count.filter(|_| request.any);
        let mut meter = match most {
            Some(_) => ctx.lane.meter(elements, work),
            // All elements must be examined.
            None => {
                ctx.lane.weigh(work, &mut ctx.pause)?;
                Meter::unlimited()
            }
        };
        matches = Matches::collect(set, &spans, shape, most.unwrap_or(usize::MAX), &mut meter);
        meter.check(&mut ctx.pause)?;
    }
    let wanted = request.count.map_or(matches.found.len(), |count| count.min(matches.found.len()));
    // With COUNT and without ANY, the nearest come first.
    let nearest = request.count.filter(|_| !request.any).map(|_| DistanceOrder::Near);
    if let Some(order) = request.order.or(nearest) {
        sort_first(&mut matches.found, wanted, |a, b| {
            // Distances are never NaN.
            let near = a.distance.partial_cmp(&b.distance).unwrap_or(Ordering::Equal);
            if order == DistanceOrder::Near { near } else { near.reverse() }
        });
    }
    matches.found.truncate(wanted);
    match request.target {
        Some(target) => store_matches(ctx, form, &request, &matches, target),
        None => {
            reply_matches(ctx, &request, &matches);
            Ok(())
        }
    }
}

fn reply_matches(ctx: &mut Ctx<'_>, request: &Request, matches: &Matches) {
    let unit = request.shape.as_ref().map_or(1.0, |shape| shape.unit);
    let reply = &mut *ctx.reply;
    let extras = [request.with_dist, request.with_hash, request.with_coord];
    let extras = extras.into_iter().filter(|with| *with).count();
    reply.array(matches.found.len());
    for found in &matches.found {
        if extras > 0 {
            reply.array(1 + extras);
        }
        reply.bulk(matches.member(found));
        if request.with_dist {
            write_distance(reply, found.distance / unit);
        }
        if request.with_hash {
            reply.int(found.score as i64);
        }
        if request.with_coord {
            write_coordinates(reply, found.place);
        }
    }
}

fn store_matches(
    ctx: &mut Ctx<'_>,
    form: Form,
    request: &Request,
    matches: &Matches,
    target: Target,
) -> CmdResult {
    let unit = request.shape.as_ref().map_or(1.0, |shape| shape.unit);
    let score = |found: &Match| if target.distances { found.distance / unit } else { found.score };
    let mut elements: Vec<(&[u8], f64)> =
        matches.found.iter().map(|found| (matches.member(found), score(found))).collect();
    elements.sort_unstable_by(|(a, x), (b, y)| {
        x.partial_cmp(y).unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
    });
    let destination = ctx.key(target.key);
    let event = match form {
        Form::SearchStore => "geosearchstore",
        Form::Search | Form::Radius { .. } => "georadiusstore",
    };
    store_elements(ctx, &destination, &elements, event)?;
    // Each element counts as a change. The first one was counted by `store_elements`.
    ctx.db.context.tally.dirty += elements.len().saturating_sub(1) as u64;
    Ok(())
}
