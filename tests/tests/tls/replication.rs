//! Replicas and MIGRATE over TLS, with Weft and with Valkey on either side.

use crate::certs::Certs;
use weft_testkit::{Server, skip_without};
use weft_tests::replicas::{fill, wait_for_same_data, wait_until_caught_up};
use weft_tests::scene::until;

/// Replicates from `primary` by its TLS port, through a full sync and a stream.
fn replicate(primary: (&Server, u16), replica: &Server) {
    fill(primary.0, 1, false);
    let mut client = replica.client();
    client.ok(&["REPLICAOF", "127.0.0.1", &primary.1.to_string()]);
    wait_until_caught_up(primary.0, replica);
    wait_for_same_data(primary.0, replica);
    let mut writer = primary.0.client();
    let value = "v".repeat(100_000);
    for n in 0..200 {
        writer.ok(&["SET", &format!("streamed:{n}"), &value]);
    }
    wait_until_caught_up(primary.0, replica);
    wait_for_same_data(primary.0, replica);
    let info = writer.cmd(&["INFO", "replication"]).text();
    assert!(info.contains("state=online"), "{info}");
}

const REPLICATES: &[&str] = &["--tls-replication", "yes"];

#[test]
fn weft_replicates_from_weft() {
    let certs = Certs::new();
    for diskless in ["yes", "no"] {
        let (primary, port) = certs.weft(&["--repl-diskless-sync", diskless]);
        let client_cert = certs.text("client.crt");
        let client_key = certs.text("client.key");
        let own = ["--tls-client-cert-file", &client_cert, "--tls-client-key-file", &client_key];
        let (replica, _) = certs.weft(&[REPLICATES, &own].concat());
        replicate((&primary, port), &replica);
    }
}

#[test]
fn valkey_replicates_from_weft() {
    let certs = Certs::new();
    let peer = certs.valkey(REPLICATES);
    if skip_without("valkey_replicates_from_weft", &peer, "valkey-server") {
        return;
    }
    let (replica, _) = peer.expect("checked");
    for diskless in ["yes", "no"] {
        let (primary, port) = certs.weft(&["--repl-diskless-sync", diskless]);
        replicate((&primary, port), &replica);
    }
}

#[test]
fn weft_replicates_from_valkey() {
    let certs = Certs::new();
    let peer = certs.valkey(&[]);
    if skip_without("weft_replicates_from_valkey", &peer, "valkey-server") {
        return;
    }
    let (primary, port) = peer.expect("checked");
    let (replica, _) = certs.weft(REPLICATES);
    replicate((&primary, port), &replica);
}

#[test]
fn primary_of_another_authority_is_refused() {
    let (certs, strangers) = (Certs::new(), Certs::new());
    let (_primary, port) = strangers.weft(&["--tls-auth-clients", "no"]);
    let (replica, _) = certs.weft(REPLICATES);
    replica.client().ok(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
    until("it is refused", || replica.log().contains("TLS: invalid peer certificate"));
    let info = replica.client().cmd(&["INFO", "replication"]).text();
    assert!(info.contains("master_link_status:down"), "{info}");
}

/// Moves keys from one server to the other by its TLS port.
fn migrate(from: &Server, to: (&Server, u16)) {
    let mut client = from.client();
    let large = "l".repeat(1 << 20);
    client.ok(&["SET", "migrated:small", "value"]);
    client.ok(&["SET", "migrated:large", &large]);
    let port = to.1.to_string();
    let args = ["MIGRATE", "127.0.0.1", &port, "", "0", "10000", "KEYS"];
    client.ok(&[&args[..], &["migrated:small", "migrated:large"]].concat());
    assert_eq!(client.cmd(&["EXISTS", "migrated:small", "migrated:large"]).int(), 0);
    assert_eq!(to.0.client().cmd(&["GET", "migrated:large"]).text(), large);
}

const CLUSTER: &[&str] = &["--tls-cluster", "yes"];

#[test]
fn migrate_is_encrypted() {
    let certs = Certs::new();
    let (one, one_port) = certs.weft(CLUSTER);
    let (other, other_port) = certs.weft(CLUSTER);
    migrate(&one, (&other, other_port));
    let peer = certs.valkey(CLUSTER);
    if skip_without("migrate_is_encrypted", &peer, "valkey-server") {
        return;
    }
    let (valkey, valkey_port) = peer.expect("checked");
    migrate(&one, (&valkey, valkey_port));
    migrate(&valkey, (&one, one_port));
}
