//! The response to a request.

use crate::access::{self, Asked, Refused};
use crate::exposition;
use crate::negotiate::{self, Format};
use crate::page::{self, File};
use crate::ready;
use crate::sample::Sampler;
use crate::state_json;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use std::net::SocketAddr;

/// The body of all responses: complete and in memory.
pub type Body = Full<Bytes>;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Responds to a request. HEAD is GET without the body, which hyper drops.
pub fn respond(
    sampler: &mut Sampler,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Response<Body> {
    let route = match path {
        "/healthz" => Route::Health,
        "/readyz" => Route::Ready,
        "/metrics" => Route::Metrics,
        "/state.json" => Route::State,
        "/keys.json" => Route::Keys,
        path => match page::find(path) {
            Some(file) => Route::Page(file),
            None => return answer(StatusCode::NOT_FOUND, TEXT, "not found\n"),
        },
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "method not allowed\n");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match route {
        Route::Health => return answer(StatusCode::OK, TEXT, "ok\n"),
        Route::Ready => {
            return match ready::check(sampler.srv()) {
                Ok(()) => answer(StatusCode::OK, TEXT, "ok\n"),
                Err(why) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, why.text()),
            };
        }
        Route::Metrics | Route::State | Route::Keys | Route::Page(_) => {}
    }
    let of = |name| headers.get(name).map(HeaderValue::as_bytes);
    // No browser sends several.
    let several = headers.get_all(header::HOST).iter().count() > 1;
    let host = if several { Some(&b""[..]) } else { of(header::HOST) };
    let authorization = of(header::AUTHORIZATION);
    let asked = Asked { peer, path, authorization, host };
    let reader = match access::check(sampler.srv(), asked) {
        Ok(reader) => reader,
        Err(why) => return refuse(why),
    };
    match route {
        Route::Metrics => metrics(sampler, headers),
        Route::State => {
            let state = state_json::state(&sampler.sample(), &sampler.machine(), reader);
            answer(StatusCode::OK, JSON, state.to_string())
        }
        Route::Keys => answer(StatusCode::OK, JSON, sampler.keys(reader).to_string()),
        Route::Page(file) => {
            let mut response = answer(StatusCode::OK, file.content_type, file.contents);
            page::protect(response.headers_mut());
            response
        }
        Route::Health | Route::Ready => unreachable!("answered above"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Route {
    Health,
    Ready,
    Metrics,
    State,
    Keys,
    Page(&'static File),
}

fn metrics(sampler: &mut Sampler, headers: &HeaderMap) -> Response<Body> {
    let format = negotiated(headers);
    match exposition::write(sampler.sample(), format) {
        Ok(text) => answer(StatusCode::OK, format.content_type(), text),
        Err(e) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{e}\n")),
    }
}

/// A client may split the header Accept into several.
fn negotiated(headers: &HeaderMap) -> Format {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    negotiate::format(&values.collect::<Vec<_>>().join(","))
}

fn refuse(why: Refused) -> Response<Body> {
    match why {
        Refused::LogIn => {
            let text = "name and password of a user who may run INFO are needed\n";
            let mut response = answer(StatusCode::UNAUTHORIZED, TEXT, text);
            let realm = HeaderValue::from_static("Basic realm=\"weft\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
            response
        }
        Refused::NoPermission => answer(StatusCode::FORBIDDEN, TEXT, "user may not run INFO\n"),
        Refused::Protected => answer(
            StatusCode::FORBIDDEN,
            TEXT,
            "protected-mode is on: set a password for the default user, or read from this machine\n",
        ),
        Refused::OtherHost => answer(
            StatusCode::FORBIDDEN,
            TEXT,
            "protected-mode is on: set a password for the default user, or ask for 127.0.0.1 or localhost\n",
        ),
    }
}

fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
