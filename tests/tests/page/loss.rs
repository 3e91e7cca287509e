//! A server that is lost, starts again, resets its counters or loads its files.

use crate::browser::open;
use weft_tests::watched::Watched;

#[test]
fn lost_server_is_shown_and_its_return() {
    let mut watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    for n in 0..500 {
        client.ok(&["SET", &format!("key:{n}"), "x"]);
    }
    page.until_value("tile-keys", 500);
    watched.server.kill();
    page.until("document.getElementById('state').dataset.state === 'lost'");
    page.until("/No answer since \\d\\d:\\d\\d:\\d\\d/.test(document.getElementById('notice').textContent)");
    let since = page.text("document.getElementById('notice-text').textContent");
    page.until(
        "/^\\([1-9]\\d* s ago\\)$/.test(document.getElementById('notice-changing').textContent)",
    );
    assert_eq!(page.text("document.getElementById('notice-text').textContent"), since);
    assert_eq!(page.value("tile-keys"), 500.0, "the last figures stay");
    assert_eq!(page.js("document.body.classList.contains('stale')"), true);
    // It returns empty, with another run id and with counters that begin again.
    watched.server.restart();
    page.until("document.getElementById('state').dataset.state === 'live'");
    page.until_value("tile-keys", 0);
    assert_eq!(page.js("document.getElementById('notice').hidden"), true);
    assert_eq!(page.js("document.body.classList.contains('stale')"), false);
    assert!(page.value("total-total_commands_processed") < 500.0);
    page.until("document.getElementById('tile-rate').value !== ''");
    assert!(page.value("tile-rate") < 500.0, "no rate over two runs");
}

#[test]
fn counters_that_go_back_make_no_negative_rate() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    for _ in 0..300 {
        client.ok(&["SET", "key", "x"]);
    }
    page.until("Number(document.getElementById('total-total_commands_processed').value) >= 300");
    page.js(
        "window.seen = [];
         new MutationObserver(() => window.seen.push(...['tile-rate', 'tile-traffic', 'tile-cpu'].map(id => document.getElementById(id).value)))
            .observe(document.body, { attributes: true, attributeFilter: ['data-reading'] })",
    );
    client.ok(&["CONFIG", "RESETSTAT"]);
    page.until("Number(document.getElementById('total-total_commands_processed').value) < 10");
    page.next_reading();
    page.next_reading();
    assert_eq!(
        page.js("window.seen.length > 0 && window.seen.every(n => n === '' || Number(n) >= 0)"),
        true
    );
    client.ok(&["SET", "key", "x"]);
    page.until("[...document.querySelectorAll('#command-table tbody tr')].some(row => row.firstElementChild.textContent === 'set' && row.querySelector('[data-column=calls]').dataset.value === '1')");
}

#[test]
fn loading_server_is_shown() {
    let mut watched = Watched::start(&["--enable-debug-command", "yes"]);
    let Some(mut page) = open(&watched) else { return };
    watched.server.client().ok(&["DEBUG", "POPULATE", "20000"]);
    watched.server.client().ok(&["SAVE"]);
    page.until_value("tile-keys", 20000);
    let port = watched.port.to_string();
    // Ten seconds in all.
    watched.server.restart_loading(&["--metrics-port", &port, "--key-load-delay", "500"]);
    page.until("document.getElementById('state').textContent === 'loading'");
    assert_eq!(
        page.js("document.getElementById('notice').textContent.includes('loads its data')"),
        true
    );
    page.until("document.getElementById('state').textContent === 'live'");
    page.until_value("tile-keys", 20000);
    assert_eq!(page.js("document.getElementById('notice').hidden"), true);
}
