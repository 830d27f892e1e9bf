//! Tests of the keys of `[auth]`.

use super::super::*;

fn resolve(keys: &str) -> Result<Resolved, String> {
    let text = format!("[node]\nname = \"n1\"\n{keys}");
    let layers = Layers::default().file("seqd.toml", &text).unwrap();
    layers.resolve("host").map_err(|error| error.to_string())
}

#[test]
fn tokens_need_a_file_and_authenticate_clients() {
    let file = "bootstrap_token_file = \"/etc/seqd/token\"\n";
    let off = resolve(&format!("[auth]\n{file}"))
        .unwrap()
        .warnings
        .join("");
    assert!(off.contains("auth.enabled is not"), "{off}");

    let tls =
        "[tls]\ncert = \"a\"\nkey = \"a\"\npeer_cert = \"a\"\npeer_key = \"a\"\npeer_ca = \"a\"\n";
    let on = format!("[auth]\nenabled = true\n{file}");
    let exposed = |keys: &str| check_exposed(&resolve(keys).unwrap().config);
    assert!(exposed(tls).is_err());
    assert_eq!(exposed(&format!("{tls}{on}")), Ok(None));
    assert!(exposed(&on).is_err(), "a token without TLS");
}
