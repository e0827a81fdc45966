//! Tests which first lines MCP claims.

use gladhand_core::wire::Members;

use super::*;

#[test]
fn a_first_line_is_claimed_by_its_method_or_its_meta() {
    use Claim::{Certain, No, Plausible};
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, Certain),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, Certain),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Certain),
        (r#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#, Certain),
        (r#"{"jsonrpc":"1.0","id":1,"method":"initialize"}"#, Certain),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"9"}}}"#,
            Certain,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x/y"}"#, Plausible),
        (r#"{"jsonrpc":"2.0","id":1,"method":"some.method"}"#, Plausible),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"a.b","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"9"}}}"#,
            Plausible,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Plausible),
        (r#"{"jsonrpc":"2.0"}"#, Plausible),
        ("[]", Plausible),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Plausible),
        (r#"{"id":1,"method":"initialize"}"#, No),
        (r#"{"type":"handshake"}"#, No),
        ("{}", No),
        ("42", No),
        ("\"initialize\"", No),
    ] {
        let first = FirstLine { text: line, members: Members::parse(line).ok() };
        assert_eq!(claim(&first), expected, "{line}");
    }
}

#[test]
fn all_revisions_can_be_asked_for_by_name() {
    let mut versions = DIALECT.versions.to_vec();
    versions.sort_unstable();
    assert_eq!(versions, revision::Revision::ALL.map(revision::Revision::as_str));
}
