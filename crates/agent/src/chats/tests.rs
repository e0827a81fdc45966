use super::*;
use crate::moment::Moment;
use crate::session::Target;

fn message(role: Role, text: &str) -> ChatMessage {
    ChatMessage { role, text: text.to_owned(), images: Vec::new() }
}

fn file(id: &str, updated_at: &str, messages: Vec<ChatMessage>) -> ChatFile {
    let path = format!("sessions/2026/11/15/rollout-20261115-011453284-{id}.jsonl");
    let chat = Chat {
        id: id.to_owned(),
        created_at: "2026-11-15T01:14:53.284Z".to_owned(),
        path,
        title: "other chat".to_owned(),
    };
    let target = Target {
        provider: "openrouter".to_owned(),
        model: "acme/plain-1".to_owned(),
        thinking: Thinking::Off,
        routing: "any".to_owned(),
        window: 32_000,
    };
    ChatFile { chat, target, updated_at: updated_at.to_owned(), messages }
}

#[test]
fn a_chat_file_has_the_lines_of_the_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let chats = Chats::new(folder.path());
    let mut asked = message(Role::User, " other chat [Image 1] ");
    asked.images.push(Image {
        path: "i.png".to_owned(),
        mime_type: "image/png".to_owned(),
        data_url: "data:x".to_owned(),
        byte_size: 70,
    });
    let messages = vec![asked, message(Role::User, "  "), message(Role::Assistant, "answer three")];
    let chat = file("abc", "2026-11-15T01:14:53.300Z", messages);
    chats.save(&chat).unwrap();
    let text = std::fs::read_to_string(folder.path().join(&chat.chat.path)).unwrap();
    let expected = r#"{"type":"session_meta","id":"abc","title":"other chat","provider":"openrouter","model":"acme/plain-1","thinkingLevel":"OFF","openRouterProvider":"any","createdAt":"2026-11-15T01:14:53.284Z","updatedAt":"2026-11-15T01:14:53.300Z","messageCount":2}
{"type":"message","index":0,"role":"user","text":"other chat [Image 1]","images":[{"path":"i.png","mimeType":"image/png","dataUrl":"data:x","byteSize":70}]}
{"type":"message","index":1,"role":"assistant","text":"answer three"}
"#;
    assert_eq!(text, expected);
    let (summary, read) = chats.read(&folder.path().join(&chat.chat.path)).unwrap();
    assert_eq!((summary.message_count, read.len(), read[1].text.as_str()), (2, 2, "answer three"));
}

#[test]
fn invalid_lines_are_skipped_and_the_last_meta_line_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout-x.jsonl");
    let meta = |title: &str| {
        format!(
            r#"{{"type":"session_meta","id":"a","title":"{title}","provider":"openai","model":"gpt-5","thinkingLevel":"XHIGH","createdAt":"x","updatedAt":"y","messageCount":1,"more":1}}"#
        )
    };
    let text = format!(
        "{}\n{{broken\n{{\"type\":\"other\"}}\n{{\"type\":\"message\",\"index\":0,\"role\":\"user\",\"text\":\"hi\"}}\n{}\n",
        meta("one"),
        meta("two")
    );
    std::fs::write(&path, text).unwrap();
    let (summary, messages) = read(&path).unwrap();
    assert_eq!((summary.title.as_str(), messages), ("two", vec![message(Role::User, "hi")]));
    std::fs::write(&path, meta("one").replace("XHIGH", "MUCH")).unwrap();
    assert!(read(&path).is_none(), "an unknown thinking level");
}

#[test]
fn chats_are_listed_newest_first_and_found_by_id_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let chats = Chats::new(folder.path());
    let said = || vec![message(Role::User, "hi")];
    chats.save(&file("abc1", "2026-11-15T01:00:00.000Z", said())).unwrap();
    chats.save(&file("abd2", "2026-11-15T02:00:00.000Z", said())).unwrap();
    let ids = |chats: &Chats| chats.list().into_iter().map(|chat| chat.id).collect::<Vec<_>>();
    assert_eq!(ids(&chats), ["abd2", "abc1"]);
    // Another process sees the same chats, and its changes are visible here.
    let other = Chats::new(folder.path());
    other.save(&file("abc1", "2026-11-15T03:00:00.000Z", [said(), said()].concat())).unwrap();
    assert_eq!((ids(&other), ids(&chats)), (vec!["abc1".to_owned(), "abd2".to_owned()], ids(&other)));
    assert_eq!(chats.find("ABD").map(|chat| chat.id).as_deref(), Some("abd2"));
    assert!(chats.find("ab").is_none(), "the prefix is ambiguous");
}

#[test]
fn the_journal_counts_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let chats = Chats::new(folder.path());
    let chat = file("abc", "x", Vec::new()).chat;
    let entry = Entry {
        at: Moment(0),
        kind: "user_msg",
        turn_id: "t".to_owned(),
        provider: "openrouter".to_owned(),
        payload: json::raw("{}".to_owned()),
    };
    chats.journal(&chat, &entry).unwrap();
    chats.journal(&chat, &entry).unwrap();
    let path = folder.path().join("sessions/2026/11/15/rollout-20261115-011453284-abc.compact.events.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let indexes: Vec<_> = text.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(indexes, [r#"{"index":0"#, r#"{"index":1"#]);
    assert!(chats.list().is_empty(), "a journal is not a chat");
}

#[test]
fn a_resumed_chat_keeps_id_time_and_title() {
    let file = file("abc", "x", vec![message(Role::User, "hello there"), message(Role::Assistant, "hi")]);
    let taken = chat_of(&read_back(&file));
    assert_eq!((taken.id, taken.created_at, taken.title), (file.chat.id, file.chat.created_at, file.chat.title));
}

#[cfg(unix)]
#[test]
fn a_chat_file_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let chats = Chats::new(folder.path());
    let file = file("abc", "x", vec![message(Role::User, "hello there")]);
    chats.keep(&file).unwrap();
    let mode = std::fs::metadata(&chats.list().remove(0).rollout_path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn read_back(file: &ChatFile) -> ChatSummary {
    let folder = tempfile::tempdir().unwrap();
    let chats = Chats::new(folder.path());
    chats.save(file).unwrap();
    chats.list().remove(0)
}
