//! Server URIs: `valkey://user:password@host:port/dbnum`, with `valkeys` for TLS.

/// The given parts of a URI.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uri {
    pub tls: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub db: Option<i64>,
}

/// Reads a URI.
///
/// # Errors
/// With the reason why it is invalid.
pub fn parse(text: &str) -> Result<Uri, String> {
    let (scheme, rest) = text.split_once("://").ok_or("Invalid URI scheme")?;
    let tls = match scheme {
        "valkey" | "redis" => false,
        "valkeys" | "rediss" => true,
        _ => return Err("Invalid URI scheme".into()),
    };
    let mut uri = Uri { tls, ..Uri::default() };
    let rest = match rest.split_once('@') {
        None => rest,
        Some((login, rest)) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (Some(user), password),
                None => (None, login),
            };
            uri.user = user.filter(|user| !user.is_empty()).map(decode).transpose()?;
            uri.password = Some(decode(password)?);
            rest
        }
    };
    let (place, db) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match place.rsplit_once(':') {
        // The colons of an address in brackets belong to it.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (place, None),
    };
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    uri.host = Some(host).filter(|host| !host.is_empty()).map(decode).transpose()?;
    let port = port.map(|port| port.parse().map_err(|_| "Invalid server port.".to_string()));
    uri.port = port.transpose()?;
    let db = Some(db).filter(|db| !db.is_empty());
    uri.db =
        db.map(|db| db.parse().map_err(|_| "Invalid database number".to_string())).transpose()?;
    Ok(uri)
}

/// Replaces `%XX`.
fn decode(text: &str) -> Result<String, String> {
    let wrong = || "Incomplete or wrong escape in URI".to_string();
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next().ok_or_else(wrong)?, bytes.next().ok_or_else(wrong)?];
        let digits = std::str::from_utf8(&digits).map_err(|_| wrong())?;
        out.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
    }
    String::from_utf8(out).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_may_be_there_or_not() {
        let all = parse("valkey://me:p%40ss@box:7000/3").unwrap();
        assert_eq!(all.user.as_deref(), Some("me"));
        assert_eq!(all.password.as_deref(), Some("p@ss"));
        assert_eq!((all.host.as_deref(), all.port, all.db), (Some("box"), Some(7000), Some(3)));
        let host = parse("redis://box").unwrap();
        assert_eq!(host, Uri { host: Some("box".into()), ..Uri::default() });
        let password = parse("valkey://secret@box").unwrap();
        assert_eq!((password.user, password.password.as_deref()), (None, Some("secret")));
        assert!(!host.tls && parse("valkeys://box").unwrap().tls);
        let v6 = parse("valkey://[::1]:7000").unwrap();
        assert_eq!((v6.host.as_deref(), v6.port), (Some("::1"), Some(7000)));
    }

    #[test]
    fn wrong_ones_are_refused() {
        for text in ["box:7000", "http://box", "valkey://box:x", "valkey://a%4@box"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
