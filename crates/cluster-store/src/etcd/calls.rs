//! Calls over several endpoints: which one is tried, when the next one is, and the token of the user.

use super::connection::Control;
use super::gateway::{Failure, Gateway, Limits, Reply};
use super::reject::Rejection;
use super::{decode, encode};
use crate::store::Error;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use ureq::BodyReader;

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub password: String,
}

impl std::fmt::Debug for User {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish()
    }
}

/// The effect of a second execution of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing at all.
    Read,
    /// Nothing more than the first.
    Idempotent,
    /// Something else, so it never happens.
    Never,
}

/// The result of one attempt that another attempt may better.
enum Attempt<T> {
    Done(Result<T, Error>),
    /// The next endpoint may do it. The error is the result if there is none.
    Next(Error),
}

/// See the module documentation.
#[derive(Debug)]
pub struct Calls {
    gateway: Gateway,
    user: Option<User>,
    /// Of the user; etcd ends it after some minutes without use, and when it starts again.
    token: Mutex<Option<Arc<str>>>,
    /// The endpoint that answered last.
    current: AtomicUsize,
}

impl Calls {
    pub fn new(gateway: Gateway, user: Option<User>) -> Calls {
        Calls { gateway, user, token: Mutex::new(None), current: AtomicUsize::new(0) }
    }

    /// Executes a request.
    pub fn call(
        &self,
        path: &str,
        body: &Value,
        repeat: Repeat,
        timeout: Duration,
    ) -> Result<Value, Error> {
        self.over_endpoints(timeout, |endpoint, share, total| {
            let total = if repeat == Repeat::Never { total } else { share };
            let limits = Limits { connect: share, total: Some(total) };
            let reply = self.with_token(endpoint, limits, |token| {
                let reply = self.gateway.post(endpoint, path, token, body, limits);
                reply.map_err(Trouble::Failure).and_then(accept)
            });
            match reply {
                Ok(value) => Attempt::Done(Ok(value)),
                Err(trouble) => self.judge(trouble, repeat),
            }
        })
    }

    /// Starts a stream of answers; `begin` reads the first.
    pub fn stream<T>(
        &self,
        path: &str,
        body: &Value,
        timeout: Duration,
        mut begin: impl FnMut(BodyReader<'static>, Arc<Control>) -> Result<T, Trouble>,
    ) -> Result<T, Error> {
        self.over_endpoints(timeout, |endpoint, share, _| {
            let limits = Limits { connect: share, total: Some(share) };
            let begun = self.with_token(endpoint, limits, |token| {
                let control = Control::new(Instant::now() + share);
                let opened = self.gateway.open(endpoint, path, token, body, &control, share);
                let (status, mut reader) = opened.map_err(Trouble::Failure)?;
                if status != 200 {
                    let mut body = Vec::new();
                    // Without its body, the status decides.
                    let _ = std::io::Read::read_to_end(&mut reader, &mut body);
                    return Err(Trouble::Rejection(Rejection::of_reply(status, &body)));
                }
                begin(reader, control)
            });
            match begun {
                Ok(begun) => Attempt::Done(Ok(begun)),
                Err(trouble) => self.judge(trouble, Repeat::Read),
            }
        })
    }

    /// Tries the endpoints in turn, starting with the one that answered last. `attempt` gets the endpoint, its share of the
    /// time that is left, and that time.
    fn over_endpoints<T>(
        &self,
        timeout: Duration,
        mut attempt: impl FnMut(usize, Duration, Duration) -> Attempt<T>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + timeout;
        let endpoints = self.gateway.endpoints();
        let first = self.current.load(Ordering::Relaxed);
        let mut last = Error::Unavailable("timed out".to_string());
        for i in 0..endpoints {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let endpoint = (first + i) % endpoints;
            let share = left / u32::try_from(endpoints - i).unwrap_or(1);
            match attempt(endpoint, share, left) {
                Attempt::Done(result) => {
                    // After doubt, the next call starts elsewhere: this endpoint may hang.
                    let doubt = matches!(result, Err(Error::Unknown(_)));
                    let next = (endpoint + usize::from(doubt)) % endpoints;
                    self.current.store(next, Ordering::Relaxed);
                    return result;
                }
                // An attempt that may have been executed is remembered.
                Attempt::Next(_) if matches!(last, Error::Unknown(_)) => {}
                Attempt::Next(error) => last = error,
            }
        }
        Err(last)
    }

    /// Whether an attempt without a result ends the call.
    fn judge<T>(&self, trouble: Trouble, repeat: Repeat) -> Attempt<T> {
        let error = trouble.into_error();
        match (error, repeat) {
            (Error::Unavailable(why), _) => Attempt::Next(Error::Unavailable(why)),
            (Error::Unknown(why), Repeat::Read) => Attempt::Next(Error::Unavailable(why)),
            (Error::Unknown(why), Repeat::Idempotent) => Attempt::Next(Error::Unknown(why)),
            (error, _) => Attempt::Done(Err(error)),
        }
    }

    /// Sends a request with the user's token. If etcd doesn't know the token, gets a new one and sends the request again:
    /// etcd checks the token before it executes anything.
    fn with_token<T>(
        &self,
        endpoint: usize,
        limits: Limits,
        mut send: impl FnMut(Option<&str>) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let Some(user) = &self.user else { return send(None) };
        // Not in the match, which would hold the lock.
        let known = self.lock_token().clone();
        let token = match known {
            Some(token) => Some(token),
            None => self.log_in(user, endpoint, limits)?,
        };
        match send(token.as_deref()) {
            Err(Trouble::Rejection(Rejection::NeedsToken(_))) => {
                let token = self.log_in(user, endpoint, limits)?;
                send(token.as_deref())
            }
            result => result,
        }
    }

    /// Gets a token; none if etcd has no users (yet).
    fn log_in(
        &self,
        user: &User,
        endpoint: usize,
        limits: Limits,
    ) -> Result<Option<Arc<str>>, Trouble> {
        let body = encode::authenticate(&user.name, &user.password);
        let reply = self.gateway.post(endpoint, "/v3/auth/authenticate", None, &body, limits);
        let token = match reply.map_err(Trouble::Failure).and_then(accept) {
            Ok(value) => Some(decode::token(&value).map_err(Trouble::malformed)?.into()),
            Err(Trouble::Rejection(Rejection::NoUsers)) => None,
            // Nothing was sent but the login.
            Err(Trouble::Failure(failure)) => {
                return Err(Trouble::Failure(Failure { is_sent: false, ..failure }));
            }
            Err(Trouble::Rejection(Rejection::Unknown(why))) => {
                return Err(Trouble::Rejection(Rejection::TryElsewhere(why)));
            }
            Err(trouble) => return Err(trouble),
        };
        self.lock_token().clone_from(&token);
        Ok(token)
    }

    fn lock_token(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.token.lock().expect("no holder panics")
    }
}

/// Why an attempt has no result.
#[derive(Debug)]
pub enum Trouble {
    Failure(Failure),
    Rejection(Rejection),
}

impl Trouble {
    /// An answer that can't be read: what it says is unknown.
    pub fn malformed(why: decode::Malformed) -> Trouble {
        Trouble::Rejection(Rejection::Unknown(format!("not a response of etcd: {why}")))
    }

    fn into_error(self) -> Error {
        match self {
            Trouble::Rejection(rejection) => rejection.into(),
            Trouble::Failure(Failure { why, is_refused: true, .. }) => Error::Refused(why),
            Trouble::Failure(Failure { why, is_sent: true, .. }) => Error::Unknown(why),
            Trouble::Failure(Failure { why, .. }) => Error::Unavailable(why),
        }
    }
}

fn accept(reply: Reply) -> Result<Value, Trouble> {
    if reply.status != 200 {
        return Err(Trouble::Rejection(Rejection::of_reply(reply.status, &reply.body)));
    }
    serde_json::from_slice(&reply.body).map_err(|e| Trouble::malformed(e.to_string()))
}
