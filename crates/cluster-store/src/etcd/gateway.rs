//! One request to one endpoint, over HTTP.

use super::connection::{Control, GatewayConnector, take_sent};
use crate::address::Address;
use rustls::{AlertDescription, ClientConfig};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, Body, BodyReader};

/// A response is not larger: thousands of nodes with a kilobyte each fit.
const MAX_RESPONSE: u64 = 256 * 1024 * 1024;
/// etcd doesn't close idle connections by itself, but firewalls do.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// The endpoints of a store.
#[derive(Debug)]
pub struct Gateway {
    agent: Agent,
    connector: GatewayConnector,
    /// Scheme, host and port of each endpoint.
    bases: Vec<String>,
}

/// The answer of an endpoint.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// No answer.
#[derive(Debug)]
pub struct Failure {
    pub why: String,
    /// Whether the endpoint may have received the request.
    pub is_sent: bool,
    /// Whether one of both sides doesn't accept the other's certificate.
    pub is_refused: bool,
}

/// A call's share of the time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// To find the address, and again to connect, the handshake of TLS included.
    pub connect: Duration,
    /// `None`: a [`Control`] ends the call.
    pub total: Option<Duration>,
}

impl Gateway {
    pub fn new(address: &Address, tls: Option<ClientConfig>) -> Gateway {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let bases = address.endpoints.iter().map(|endpoint| format!("{scheme}://{endpoint}"));
        let connector = GatewayConnector { tls: tls.map(Arc::new), control: None };
        Gateway { agent: agent(&connector), bases: bases.collect(), connector }
    }

    pub fn endpoints(&self) -> usize {
        self.bases.len()
    }

    /// The endpoint, for the log.
    pub fn name(&self, endpoint: usize) -> &str {
        &self.bases[endpoint]
    }

    /// Sends a request once, and waits for its answer.
    pub fn post(
        &self,
        endpoint: usize,
        path: &str,
        token: Option<&str>,
        body: &Value,
        limits: Limits,
    ) -> Result<Reply, Failure> {
        take_sent();
        let (status, mut body) = self
            .send(&self.agent, endpoint, path, token, body, limits)
            .map_err(|e| self.failure(endpoint, &e))?;
        let body = body.with_config().limit(MAX_RESPONSE).read_to_vec();
        let body = body.map_err(|e| self.failure(endpoint, &e))?;
        Ok(Reply { status, body })
    }

    /// Sends a request on a connection of its own, and returns the stream of its answers.
    ///
    /// `control` has the deadline of each read.
    pub fn open(
        &self,
        endpoint: usize,
        path: &str,
        token: Option<&str>,
        body: &Value,
        control: &Arc<Control>,
        connect: Duration,
    ) -> Result<(u16, BodyReader<'static>), Failure> {
        take_sent();
        let connector =
            GatewayConnector { control: Some(control.clone()), ..self.connector.clone() };
        let agent = agent(&connector);
        let (status, body) = self
            .send(&agent, endpoint, path, token, body, Limits { connect, total: None })
            .map_err(|e| self.failure(endpoint, &e))?;
        Ok((status, body.into_with_config().limit(u64::MAX).reader()))
    }

    fn send(
        &self,
        agent: &Agent,
        endpoint: usize,
        path: &str,
        token: Option<&str>,
        body: &Value,
        limits: Limits,
    ) -> Result<(u16, Body), ureq::Error> {
        let mut request = agent
            .post(format!("{}{path}", self.bases[endpoint]))
            .config()
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_global(limits.total)
            .build()
            .header("content-type", "application/json")
            // A member without a leader ends the watch then, instead of staying silent.
            .header("grpc-metadata-hasleader", "true");
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let response = request.send(body.to_string().as_bytes())?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    fn failure(&self, endpoint: usize, error: &ureq::Error) -> Failure {
        let is_refused = rustls_error(error).is_some_and(is_about_certificates);
        let why = format!("{}: {error}", self.name(endpoint));
        Failure { why, is_sent: take_sent() && !is_refused, is_refused }
    }
}

fn agent(connector: &GatewayConnector) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .max_idle_age(MAX_IDLE)
        .user_agent("weft")
        .build();
    Agent::with_parts(config, connector.clone(), DefaultResolver::default())
}

fn rustls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    let ureq::Error::Io(e) = error else { return None };
    let inner = e.get_ref()?;
    inner.downcast_ref().or_else(|| inner.source()?.downcast_ref())
}

/// A server that doesn't accept the client's certificate says so after the handshake of TLS 1.3, when the request may be on
/// its way. It hasn't executed that request.
fn is_about_certificates(error: &rustls::Error) -> bool {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(_) => true,
        rustls::Error::AlertReceived(alert) => matches!(
            alert,
            Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::CertificateRequired
        ),
        _ => false,
    }
}
