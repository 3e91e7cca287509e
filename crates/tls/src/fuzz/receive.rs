//! A session that receives bytes in portions.

use crate::Session;
use crate::session::RECORD;

/// Passes bytes to a session in portions, and checks its state after each. Returns its answers.
pub(super) fn receive(
    session: &mut Session,
    bytes: &[u8],
    portion: usize,
    sink: &mut impl FnMut(&[u8]),
) -> Result<Vec<u8>, rustls::Error> {
    let mut answers = Vec::new();
    take_unsent(session, &mut answers);
    for part in bytes.chunks(portion.min(bytes.len().max(1))) {
        let mut received = [session.incomplete(), part].concat();
        let done = match session.is_established() {
            false => session.shake_hands(&mut received),
            true => session.take(&mut received, sink),
        };
        take_unsent(session, &mut answers);
        if session.is_established() {
            session.take_early(sink);
        }
        if let Err(why) = done {
            assert!(session.has_failed());
            assert!(session.encrypt(b"x").is_err(), "written after a failure");
            session.queue_close_notify();
            assert!(session.unsent().is_empty() && session.incomplete().is_empty());
            return Err(why);
        }
        assert!(session.incomplete().len() <= received.len());
        if session.has_ended() {
            // A connection stops reading here.
            break;
        }
    }
    Ok(answers)
}

/// Moves the encrypted bytes of a session to `answers`. They must be records.
pub(super) fn take_unsent(session: &mut Session, answers: &mut Vec<u8>) {
    let unsent = session.unsent();
    let mut rest = unsent;
    while !rest.is_empty() {
        let [kind, 3, _, high, low, payload @ ..] = rest else { panic!("no header: {rest:?}") };
        assert!((20..=23).contains(kind), "type {kind}");
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        assert!(length <= RECORD + 256, "{length} bytes in a record");
        rest = payload.get(length..).expect("a whole record");
    }
    answers.extend_from_slice(unsent);
    session.sent(unsent.len(), &mut Vec::new());
}
