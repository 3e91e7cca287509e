//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO: see [`weft_executor::tracking`].

use std::sync::Arc;
use weft_base::num::parse_i64;
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::core::ConnCx;
use weft_executor::tracking;
use weft_executor::tracking::{Mode, TrackingOptions};
use weft_state::client_line::redirect;
use weft_state::clients::Own;
use weft_state::clients::Tracker;
use weft_state::server::Server;

const ONE_REDIRECTION: Error =
    Error::new("ERR A client can only redirect to a single other client");
const NO_SUCH_CLIENT: Error = Error::new("ERR The client ID you want redirect to does not exist");
const PREFIX_WITHOUT_BCAST: Error =
    Error::new("ERR PREFIX option requires BCAST mode to be enabled");
const SWITCHES_BCAST: Error = Error::new(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const BCAST_CHOOSES: Error = Error::new("ERR OPTIN and OPTOUT are not compatible with BCAST");
const IN_AND_OUT: Error = Error::new("ERR You can't specify both OPTIN mode and OPTOUT mode");
const SWITCHES_OPTION: Error = Error::new(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const NOT_TRACKING: Error = Error::new(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
     OPTOUT mode enabled",
);
const YES_WITHOUT_OPTIN: Error =
    Error::new("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
const NO_WITHOUT_OPTOUT: Error =
    Error::new("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");

/// The session's tracking state, while tracking is on.
fn own<'a>(cx: &'a mut ConnCx<'_>) -> Option<&'a mut Own> {
    cx.session.pushes.tracks.as_mut()
}

pub fn tracking(cx: &mut ConnCx<'_>) -> CmdResult {
    // OFF removes all prefixes.
    let follows = own(cx).map_or(0, |own| own.tracker.prefix_count());
    cx.weigh(cx.args.len() + if cx.is(2, "off") { follows } else { 0 })?;
    let wishes = parse(cx.srv(), &cx.args[3..])?;
    if cx.is(2, "on") {
        check(&wishes, cx.session.pushes.tracks.as_ref().map(|own| &*own.tracker))?;
        tracking::enable(cx.core.srv, cx.session, &wishes);
    } else if cx.is(2, "off") {
        tracking::disable(cx.core.srv, cx.session);
    } else {
        return Err(error::SYNTAX);
    }
    cx.reply.ok();
    Ok(())
}

/// Parses the options after ON or OFF.
fn parse<'a>(srv: &Server, mut args: &[&'a [u8]]) -> Result<TrackingOptions<'a>, Error> {
    let mut wishes = TrackingOptions { mode: Mode::ON, redirect: None, prefixes: Vec::new() };
    while let Some((word, rest)) = args.split_first() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        args = match rest {
            [id, after @ ..] if is("redirect") => {
                if wishes.redirect.is_some() {
                    return Err(ONE_REDIRECTION);
                }
                let id = parse_i64(id).ok_or(error::NOT_AN_INTEGER)?;
                let client = u64::try_from(id).ok().and_then(|id| srv.clients.registry.get(id));
                wishes.redirect = Some(client.ok_or(NO_SUCH_CLIENT)?);
                after
            }
            [prefix, after @ ..] if is("prefix") => {
                wishes.prefixes.push(*prefix);
                after
            }
            _ => {
                let modes = [
                    ("bcast", Mode::BCAST),
                    ("optin", Mode::OPTIN),
                    ("optout", Mode::OPTOUT),
                    ("noloop", Mode::NOLOOP),
                ];
                let mode = modes.iter().find(|(name, _)| is(name)).ok_or(error::SYNTAX)?.1;
                wishes.mode = wishes.mode.or(mode);
                rest
            }
        };
    }
    Ok(wishes)
}

/// Checks the options against each other and against the present mode.
fn check(wishes: &TrackingOptions<'_>, present: Option<&Tracker>) -> CmdResult {
    let mode = wishes.mode;
    let was = present.map_or(Mode::OFF, Tracker::mode);
    let opts = Mode::OPTIN.or(Mode::OPTOUT);
    if !mode.has(Mode::BCAST) && !wishes.prefixes.is_empty() {
        return Err(PREFIX_WITHOUT_BCAST);
    }
    if was.has(Mode::ON) && was.has(Mode::BCAST) != mode.has(Mode::BCAST) {
        return Err(SWITCHES_BCAST);
    }
    if mode.has(Mode::BCAST) && mode.has(opts) {
        return Err(BCAST_CHOOSES);
    }
    if mode.has(Mode::OPTIN) && mode.has(Mode::OPTOUT) {
        return Err(IN_AND_OUT);
    }
    if mode.has(opts) && was.has(opts) && mode.has(Mode::OPTIN) != was.has(Mode::OPTIN) {
        return Err(SWITCHES_OPTION);
    }
    check_prefixes(&wishes.prefixes, present)
}

/// Fails if two prefixes overlap, since a key would then be sent twice. O(n * log(n)).
fn check_prefixes(prefixes: &[&[u8]], present: Option<&Tracker>) -> CmdResult {
    let collides = |prefix: &[u8], with: &str, other: &[u8]| {
        let text = [
            b"ERR Prefix '",
            shown(prefix),
            b"' overlaps with ",
            with.as_bytes(),
            b" prefix '",
            shown(other),
            b"'. Prefixes for a single client must not overlap.",
        ];
        Err(Error::owned(text.concat()))
    };
    let overlapping = overlapping(prefixes);
    for (n, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = present.and_then(|present| present.overlap(prefix)) {
            return collides(prefix, "an existing", &other);
        }
        let overlap = |other: &&&[u8]| other.starts_with(prefix) || prefix.starts_with(other);
        if overlapping[n]
            && let Some(other) = prefixes[n + 1..].iter().find(overlap)
        {
            return collides(prefix, "another provided", other);
        }
    }
    Ok(())
}

/// The part of a prefix that errors show: the reference prints C strings.
fn shown(prefix: &[u8]) -> &[u8] {
    let end = prefix.iter().position(|byte| *byte == 0).unwrap_or(prefix.len());
    &prefix[..end]
}

/// For each prefix, whether it overlaps with another. O(n * log(n)).
fn overlapping(prefixes: &[&[u8]]) -> Vec<bool> {
    let mut sorted: Vec<usize> = (0..prefixes.len()).collect();
    sorted.sort_unstable_by_key(|n| prefixes[*n]);
    let mut overlapping = vec![false; prefixes.len()];
    // In sorted order, all prefixes that begin with a given one follow it directly. So comparing
    // with the first of such a run is enough.
    let mut first: Option<usize> = None;
    for n in sorted {
        match first {
            Some(of) if prefixes[n].starts_with(prefixes[of]) => {
                (overlapping[of], overlapping[n]) = (true, true);
            }
            Some(_) | None => first = Some(n),
        }
    }
    overlapping
}

pub fn caching(cx: &mut ConnCx<'_>) -> CmdResult {
    let (yes, no) = (cx.is(2, "yes"), cx.is(2, "no"));
    let own = own(cx).ok_or(NOT_TRACKING)?;
    let mode = own.tracker.mode();
    match (yes, no) {
        (true, _) if !mode.has(Mode::OPTIN) => return Err(YES_WITHOUT_OPTIN),
        (false, true) if !mode.has(Mode::OPTOUT) => return Err(NO_WITHOUT_OPTOUT),
        (false, false) => return Err(error::SYNTAX),
        (true, _) | (false, true) => own.set_caching(),
    }
    cx.reply.ok();
    Ok(())
}

pub fn getredir(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.int(redirect(&cx.session.shared));
    Ok(())
}

pub fn trackinginfo(cx: &mut ConnCx<'_>) -> CmdResult {
    let caching = own(cx).is_some_and(|own| own.is_caching());
    let tracker: Option<Arc<Tracker>> = own(cx).map(|own| own.tracker.clone());
    let mode = tracker.as_ref().map_or(Mode::OFF, |tracker| tracker.mode());
    let words = [
        (mode.has(Mode::ON), "on"),
        (!mode.has(Mode::ON), "off"),
        (mode.has(Mode::BCAST), "bcast"),
        (mode.has(Mode::OPTIN), "optin"),
        (mode.has(Mode::OPTIN) && caching, "caching-yes"),
        (mode.has(Mode::OPTOUT), "optout"),
        (mode.has(Mode::OPTOUT) && caching, "caching-no"),
        (mode.has(Mode::NOLOOP), "noloop"),
        (mode.has(Mode::BROKEN), "broken_redirect"),
    ];
    let words: Vec<&str> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    let prefixes = tracker.map(|tracker| tracker.follows()).unwrap_or_default();
    let redirect = redirect(&cx.session.shared);
    let reply = &mut *cx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(words.len());
    words.iter().for_each(|word| reply.bulk(word.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_finds_prefixes_of_prefixes() {
        let of = |names: &str| {
            let names: Vec<&[u8]> = names.split(' ').map(str::as_bytes).collect();
            overlapping(&names)
        };
        assert_eq!(of("b a c"), [false; 3]);
        assert_eq!(of("abd x ab abc"), [true, false, true, true]);
        assert_eq!(of("a a b"), [true, true, false]);
        assert_eq!(of("b  a"), [true; 3], "every prefix begins with the empty one");
    }
}
