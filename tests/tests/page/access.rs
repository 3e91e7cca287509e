//! The rights of users on the page.

use crate::browser::{open, start};
use weft_tests::watched::{Watched, basic};

#[test]
fn page_needs_a_user_where_metrics_do() {
    let watched = Watched::start(&["--requirepass", "secret"]);
    for path in ["/", "/page/main.js", "/state.json", "/keys.json"] {
        let refused = watched.get(path);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.headers["www-authenticate"].starts_with("Basic realm="));
        assert_eq!(watched.send("GET", path, &basic("default", "secret")).status, 200, "{path}");
    }
    let Some(mut page) = start() else { return };
    page.navigate(&format!("http://default:secret@127.0.0.1:{}/", watched.port));
    page.wait_for_figures();
    let mut client = watched.server.client();
    client.ok(&["AUTH", "secret"]);
    client.ok(&["SET", "key", "x"]);
    page.until_value("tile-keys", 1);
}

#[test]
fn user_who_may_only_run_info_sees_no_keys_and_no_clients() {
    // A browser sends a name only to servers that ask for one.
    let watched = Watched::start(&["--requirepass", "secret"]);
    let mut client = watched.server.client();
    client.ok(&["AUTH", "secret"]);
    client.ok(&["CLIENT", "SETNAME", "hidden-name"]);
    client.ok(&["ACL", "SETUSER", "monitor", "on", ">pw", "+info"]);
    let keys = watched.send("GET", "/keys.json", &basic("monitor", "pw"));
    assert_eq!((keys.status, &*keys.body), (200, r#"{"keys":null,"samples":0,"types":[]}"#));
    let Some(mut page) = start() else { return };
    page.navigate(&format!("http://monitor:pw@127.0.0.1:{}/", watched.port));
    page.wait_for_figures();
    client.ok(&["SET", "hidden-key", "x"]);
    page.until_value("tile-keys", 1);
    page.until("document.getElementById('hot-note').textContent.includes('MONITOR')");
    assert_eq!(
        page.js("document.getElementById('clients-note').textContent.includes('CLIENT LIST')"),
        true
    );
    assert_eq!(page.js("document.body.textContent.includes('hidden-')"), false);
    assert_eq!(page.value("tile-connections"), 1.0);
}

/// A user who loses the right while the page is open sees why the figures stopped.
#[test]
fn page_says_that_it_was_refused() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    client.ok(&["ACL", "SETUSER", "default", "-info"]);
    page.until("document.getElementById('notice').textContent.includes('user may not run INFO')");
    client.ok(&["ACL", "SETUSER", "default", "+info"]);
    page.until("document.getElementById('notice').hidden");
}
