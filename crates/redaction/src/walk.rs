//! Redacts raw JSON token by token. Everything that is no secret keeps its spelling.
//!
//! The walk builds no tree, because a peer chooses the JSON: a short value takes hundreds of bytes in a tree, and a tree
//! keeps only the last of two members with one name. It needs memory for the output and for each level of nesting.

use std::borrow::Cow;
use std::ops::Range;

use gladhand_core::wire::RawValue;
use gladhand_core::wire::json;
use gladhand_core::wire::text::MAX_DEPTH;
use gladhand_core::wire::tokens::{Characters, JsonToken, JsonTokens, decoded};

use crate::flags::CommandLine;
use crate::members::{Inside, PairMember, Treatment, lists_properties, secret_pairs};
use crate::{CUT, MASK, known, rules};

/// How many more bytes than may be shown are read. A known value that the cut divides ends in them, in any spelling.
const MAX_BYTES_BEYOND: usize = 6 * known::MAX_BYTES;

/// What is done with a message.
pub(crate) struct Rules<'r> {
    /// Whether the name of a member makes the member secret.
    pub(crate) is_secret: fn(&str) -> bool,
    /// Finds more secrets in a text.
    pub(crate) also: &'r dyn Fn(&str) -> Vec<Range<usize>>,
    /// How many bytes of JSON are read and shown, approximately.
    pub(crate) max_bytes: usize,
}

/// Redacts JSON. Returns `None` if there is nothing to redact. JSON that is nested too deeply is masked as a whole.
pub(crate) fn redacted(raw: &RawValue, rules: &Rules<'_>) -> Option<Box<RawValue>> {
    Walk::new(raw.get(), rules).run().map(json::raw)
}

struct Walk<'j, 'r> {
    /// The JSON, as far as it is read.
    json: &'j str,
    is_whole: bool,
    rules: &'r Rules<'r>,
    known: known::Search,
    out: String,
    /// How much of the JSON is in the output. The rest is copied when it is needed.
    copied: usize,
    levels: Vec<Level>,
    /// The objects with a value before its sensitive name.
    pairs: Vec<usize>,
    /// How the next value is treated.
    next: Treatment,
    next_member: PairMember,
    /// Whether the next value lists the properties of a JSON Schema.
    next_has_properties: bool,
    /// How many texts were searched.
    #[cfg(test)]
    searched: usize,
}

/// An array or an object that has not ended.
struct Level {
    is_object: bool,
    inside: Inside,
    /// Of an object: whether its members are the properties of a JSON Schema.
    has_properties: bool,
    /// Of an object: whether a sensitive name belongs to its value.
    is_secret_pair: bool,
    is_empty: bool,
    /// The output until here can stay if the rest is cut.
    kept: Mark,
    /// Of an array: the command line that its strings may be.
    words: CommandLine,
    /// Of an object: how many names were changed.
    changed_names: usize,
}

/// A state of the output.
#[derive(Clone, Copy, Default)]
struct Mark {
    written: usize,
    copied: usize,
    at: usize,
}

impl<'j, 'r> Walk<'j, 'r> {
    fn new(json: &'j str, rules: &'r Rules<'r>) -> Self {
        let read = &json[..json.floor_char_boundary(rules.max_bytes.saturating_add(MAX_BYTES_BEYOND))];
        Self {
            json: read,
            is_whole: read.len() == json.len(),
            rules,
            known: known::search(),
            out: String::new(),
            copied: 0,
            levels: Vec::new(),
            pairs: secret_pairs(read, read.len() == json.len(), rules.is_secret),
            next: Treatment::default(),
            next_member: PairMember::Other,
            next_has_properties: false,
            #[cfg(test)]
            searched: 0,
        }
    }

    fn run(&mut self) -> Option<String> {
        let json = self.json;
        let mut is_name = false;
        for (token, range) in JsonTokens::of(json) {
            let is_over = self.is_over(range.end);
            match token {
                JsonToken::EndObject | JsonToken::EndArray => {
                    self.end(range, is_over);
                    is_name = false;
                }
                _ if is_over && (is_name || token != JsonToken::String) => return Some(self.cut()),
                JsonToken::String if is_name => self.name(range),
                JsonToken::String => {
                    if !self.text(range.clone(), is_over) {
                        return Some(self.closed());
                    }
                    self.complete(range.end);
                }
                JsonToken::BeginObject | JsonToken::BeginArray => {
                    if self.levels.len() == MAX_DEPTH {
                        return Some(format!("\"{MASK}\""));
                    }
                    is_name = token == JsonToken::BeginObject;
                    self.begin(&range, is_name);
                }
                JsonToken::Colon => is_name = false,
                JsonToken::Comma => is_name = self.levels.last().is_some_and(|level| level.is_object),
                JsonToken::Word => {
                    self.word(range.clone());
                    self.complete(range.end);
                }
            }
        }
        if !self.is_whole {
            return Some(self.cut());
        }
        if self.copied == 0 {
            return None;
        }
        self.out.push_str(&self.json[self.copied..]);
        Some(std::mem::take(&mut self.out))
    }

    /// Whether the JSON until here is more than may be read or shown.
    fn is_over(&self, at: usize) -> bool {
        at > self.rules.max_bytes || self.out.len() + at.saturating_sub(self.copied) > self.rules.max_bytes
    }

    fn begin(&mut self, range: &Range<usize>, is_object: bool) {
        let inside = self.next.inside;
        self.levels.push(Level {
            is_object,
            inside,
            has_properties: self.next_has_properties,
            is_secret_pair: is_object && self.pairs.binary_search(&range.start).is_ok(),
            is_empty: true,
            kept: self.mark(range.end),
            words: CommandLine::default(),
            changed_names: 0,
        });
        self.expect_item();
    }

    /// Prepares for the next item of the innermost level. If it is a member, its name prepares further.
    fn expect_item(&mut self) {
        self.next = self.levels.last().map_or_else(Treatment::default, |level| Treatment::of_item(level.inside));
        (self.next_member, self.next_has_properties) = (PairMember::Other, false);
    }

    /// Ends a level. Brackets are written beyond the limit too, so that the JSON stays valid.
    fn end(&mut self, range: Range<usize>, is_over: bool) {
        let Some(level) = self.levels.pop() else { return };
        if is_over {
            self.restore(level.kept);
            self.out.push(closing(level.is_object));
            self.copied = range.end;
        }
        self.complete(range.end);
    }

    /// Notes that an item or a member of the innermost level ends here.
    fn complete(&mut self, at: usize) {
        let mark = self.mark(at);
        if let Some(level) = self.levels.last_mut() {
            (level.is_empty, level.kept) = (false, mark);
        }
        self.expect_item();
    }

    fn mark(&self, at: usize) -> Mark {
        Mark { written: self.out.len(), copied: self.copied, at }
    }

    /// Removes everything from the output that was written after a mark.
    fn restore(&mut self, mark: Mark) {
        self.out.truncate(mark.written);
        self.out.push_str(&self.json[mark.copied..mark.at]);
        self.copied = mark.at;
    }

    fn replace(&mut self, range: Range<usize>, shown: &str) {
        self.out.push_str(&self.json[self.copied..range.start]);
        self.out.push_str(shown);
        self.copied = range.end;
    }

    /// The range of a string without its quotes. In JSON that is not read to its end, the second one may be missing.
    fn between_quotes(&self, string: &Range<usize>) -> Range<usize> {
        let is_closed = self.is_whole || string.end < self.json.len();
        string.start + 1..string.end - usize::from(is_closed)
    }

    /// Redacts the name of a member, and decides how its value is treated.
    fn name(&mut self, range: Range<usize>) {
        let json = self.json;
        let content = self.between_quotes(&range);
        let name = decoded(json, content.clone());
        let places = self.search(&name);
        if !places.is_empty() {
            let places = written_places(json, &content, places);
            let mut masked = rules::masked(&json[content.clone()], places).into_owned();
            if let Some(level) = self.levels.last_mut() {
                // Two names may have become one.
                if level.changed_names > 0 {
                    masked.push_str(&format!(" {}", level.changed_names));
                }
                level.changed_names += 1;
            }
            self.replace(content, &masked);
        }
        let Some(level) = self.levels.last() else { return };
        self.next_member = PairMember::of(&name);
        self.next = match self.next_member {
            PairMember::Value if level.is_secret_pair && level.inside == Inside::Searched => Treatment::MASKED,
            _ => Treatment::of_member(&name, level.inside, level.has_properties, self.rules.is_secret),
        };
        self.next_has_properties = level.inside != Inside::Masked && lists_properties(&name);
    }

    /// Redacts a string. Returns false if the JSON was cut in it.
    fn text(&mut self, range: Range<usize>, is_over: bool) -> bool {
        let json = self.json;
        let content = self.between_quotes(&range);
        let text = decoded(json, content.clone());
        if self.next_member == PairMember::Name
            && let Some(level) = self.levels.last_mut()
        {
            level.is_secret_pair |= (self.rules.is_secret)(&text);
        }
        // An empty value means that there is no secret.
        if self.next.masks_string && !text.is_empty() && !rules::has_reference(&text, 0..text.len()) {
            self.replace(range, &format!("\"{MASK}\""));
            return !is_over;
        }
        let mut places = self.search(&text);
        if let Some(level) = self.levels.last_mut().filter(|level| !level.is_object) {
            places.extend(level.words.secrets_in(&text));
        }
        if !is_over && places.is_empty() {
            return true;
        }
        let mut places = written_places(json, &content, places);
        if !is_over {
            let masked = rules::masked(&json[content.clone()], places);
            if let Cow::Owned(masked) = masked {
                self.replace(content, &masked);
            }
            return true;
        }
        let shown = self.rules.max_bytes.saturating_sub(self.out.len() + content.start - self.copied);
        let shown = shown.min(self.rules.max_bytes.saturating_sub(content.start));
        let kept = character_boundary(json, &content, content.start.saturating_add(shown).min(content.end));
        let length = kept - content.start;
        places.iter_mut().for_each(|place| place.end = place.end.min(length));
        places.retain(|place| place.start < place.end);
        let masked = rules::masked(&json[content.start..kept], places);
        self.replace(range, &format!("\"{masked}{CUT}\""));
        false
    }

    /// Redacts a number.
    fn word(&mut self, range: Range<usize>) {
        let json = self.json;
        let word = &json[range.clone()];
        let is_number = word.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        if is_number && (self.next.masks_number || !self.search(word).is_empty()) {
            self.replace(range, &format!("\"{MASK}\""));
        }
    }

    /// Finds the secrets in a text.
    fn search(&mut self, text: &str) -> Vec<Range<usize>> {
        #[cfg(test)]
        {
            self.searched += usize::from(!rules::is_plain(text));
        }
        let mut places = self.known.spans(text);
        places.extend(rules::spans(text));
        places.extend((self.rules.also)(text));
        places.retain(|place| !matches!(text.get(place.clone()), None | Some("" | MASK)));
        places
    }

    /// The output without the item that has begun, with the mark of a cut.
    fn cut(&mut self) -> String {
        match self.levels.last() {
            None => self.out = format!("\"{CUT}\""),
            Some(level) => {
                let (is_object, is_empty) = (level.is_object, level.is_empty);
                self.restore(level.kept);
                self.out.push_str(if is_empty { "" } else { "," });
                self.out.push_str(&format!("\"{CUT}\""));
                self.out.push_str(if is_object { ":null" } else { "" });
            }
        }
        self.closed()
    }

    /// The output with the brackets of all levels.
    fn closed(&mut self) -> String {
        self.out.extend(self.levels.iter().rev().map(|level| closing(level.is_object)));
        std::mem::take(&mut self.out)
    }
}

fn closing(is_object: bool) -> char {
    if is_object { '}' } else { ']' }
}

/// The places of a decoded string as they are written, from the beginning of the string.
fn written_places(json: &str, content: &Range<usize>, mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    if !json[content.clone()].contains('\\') {
        return places;
    }
    places.sort_unstable_by_key(|place| place.start);
    let mut written: Vec<Range<usize>> = Vec::new();
    let mut places = places.into_iter().peekable();
    // Until this byte of the decoded string, everything is secret.
    let (mut at, mut secret_until) = (0, 0);
    for character in Characters::of_json(json, content.clone()) {
        while let Some(place) = places.next_if(|place| place.start <= at) {
            secret_until = secret_until.max(place.end);
        }
        if at < secret_until {
            let range = character.range.start - content.start..character.range.end - content.start;
            match written.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => written.push(range),
            }
        }
        at += character.value.len_utf8();
    }
    written
}

/// The last end of a character in a string that is not after `at`.
fn character_boundary(json: &str, content: &Range<usize>, at: usize) -> usize {
    if !json[content.clone()].contains('\\') {
        return json.floor_char_boundary(at);
    }
    let ends = Characters::of_json(json, content.clone()).map(|character| character.range.end);
    ends.take_while(|end| *end <= at).last().unwrap_or(content.start)
}

#[cfg(test)]
mod tests {
    use gladhand_core::wire::Members;
    use gladhand_core::wire::json::Kind;
    use gladhand_core::wire::values;
    use proptest::prelude::*;

    use super::*;
    use crate::names::is_sensitive;
    use crate::{LONGEST_MESSAGE, Life, learn, redact_raw, redact_raw_cut};

    const SECRET: &str = "pä\"ss w/rd+😀9";
    const DIGITS: &str = "8675309867";

    fn rules(max_bytes: usize) -> Rules<'static> {
        Rules { is_secret: is_sensitive, also: &|_| Vec::new(), max_bytes }
    }

    fn shown(json: &str) -> String {
        redact_raw(&json::raw(json.to_owned())).map_or_else(|| json.to_owned(), |shown| shown.get().to_owned())
    }

    fn cut(json: &str) -> String {
        redact_raw_cut(&json::raw(json.to_owned())).map_or_else(|| json.to_owned(), |shown| shown.get().to_owned())
    }

    /// How many bytes were read, and how many texts were searched.
    fn work(json: &str, max_bytes: usize) -> (usize, usize) {
        let rules = rules(max_bytes);
        let mut walk = Walk::new(json, &rules);
        let out = walk.run();
        assert!(out.is_none_or(|out| out.capacity() <= 2 * json.len()));
        (walk.json.len(), walk.searched)
    }

    #[test]
    fn the_work_for_many_short_values_is_small() {
        let list = |item: &str| format!("[{}]", vec![item; 1 << 18].join(","));
        for item in ["\"\"", "\"x\"", "{\"\":0}", "[[]]", "12345678901", "\"\\u0061\"", "{\"a\":1,\"a\":2}", "\"a:\""] {
            let text = list(item);
            assert_eq!(work(&text, usize::MAX), (text.len(), 0), "{item}");
            let (read, searched) = work(&text, LONGEST_MESSAGE);
            assert!(read <= LONGEST_MESSAGE + MAX_BYTES_BEYOND && searched == 0, "{item}");
        }
    }

    #[test]
    fn a_long_message_of_any_form_is_cut() {
        let long = |piece: &str| piece.repeat((4 << 20) / piece.len());
        for text in [
            format!("[{}1]", long("\"\",")),
            format!("[{}1]", long("1, ")),
            format!("{{{}\"\":1}}", long("\"\":0,")),
            format!("{{\"{}\":1}}", long("x")),
            format!("[1,{}]", long("1")),
            format!("[1,{}2]", long(" ")),
            format!("[1{}]", long(" ")),
            format!("[{{\"a\":[1{}]}},2]", long("\n")),
            format!("\"{}\"", long("\\u0061")),
            format!("[{{\"a\":\"{}\"}},\"b\"]", long("é")),
            format!("{{\"password\":\"{}\",\"b\":1}}", long("x")),
            format!("[{}1]", long("\"--token\",\"hush\",")),
            format!("[{}1]", long("{\"password\":\"x\"},")),
        ] {
            let shown = cut(&text);
            let start: String = text.chars().take(20).collect();
            assert!(shown.len() <= LONGEST_MESSAGE + 256, "{} bytes of {start}", shown.len());
            assert!(serde_json::from_str::<&RawValue>(&shown).is_ok(), "{start}");
            let is_mask_or_blanks = text.starts_with("{\"password") || text.ends_with(" ]");
            assert!(shown.contains(CUT) || is_mask_or_blanks, "{start}: {}", &shown[..shown.len().min(100)]);
        }
    }

    #[test]
    fn every_member_of_a_repeated_name_is_redacted() {
        let url = "https://u:hush@x.example/";
        let text = format!(r#"{{"a":"{url}","a":"x","password":"hush","password":"","b":{{"token":"hush"}},"b":1}}"#);
        let url = "https://***@x.example/";
        let redacted = format!(r#"{{"a":"{url}","a":"x","password":"***","password":"","b":{{"token":"***"}},"b":1}}"#);
        assert_eq!(shown(&text), redacted);
    }

    #[test]
    fn the_rest_of_the_json_keeps_its_spelling() {
        let text = r#"{ "n" : 1.0e+5,"\u0061\/":"\u0078 https://u:hu\u0073h@h/ \ud83d\n","password" :"x" }"#;
        let redacted = r#"{ "n" : 1.0e+5,"\u0061\/":"\u0078 https://***@h/ \ud83d\n","password" :"***" }"#;
        assert_eq!(shown(text), redacted);
        assert!(redact_raw(&json::raw(r#"{"a":"\ud83d", "b": [1.50]}"#.to_owned())).is_none());
    }

    #[test]
    fn everything_below_a_sensitive_name_is_masked() {
        for (text, redacted) in [
            (
                r#"{"password":["a",["b"],{"c":"d","e":7}],"x":"y"}"#,
                r#"{"password":["***",["***"],{"c":"***","e":"***"}],"x":"y"}"#,
            ),
            (
                r#"{"authorization":{"a":-1.5e3,"b":true,"c":null,"d":""}}"#,
                r#"{"authorization":{"a":"***","b":true,"c":null,"d":""}}"#,
            ),
            (r#"{"x-api-key":12345678,"otp":123456}"#, r#"{"x-api-key":"***","otp":"***"}"#),
            (
                r#"{"Set-Cookie":["a=b; Path=/"],"token":{"token":{"n":1}},"z":1}"#,
                r#"{"Set-Cookie":["***"],"token":{"token":{"n":"***"}},"z":1}"#,
            ),
            (r#"{"\u0070assword":[1]}"#, r#"{"\u0070assword":["***"]}"#),
            (
                r#"[{"name":"password","value":"hush"},{"name":"a","value":"b"}]"#,
                r#"[{"name":"password","value":"***"},{"name":"a","value":"b"}]"#,
            ),
            (
                r#"[{"value":{"a":["hush"]},"name":"X-Api-Key"},{"value":"b","name":"a"}]"#,
                r#"[{"value":{"a":["***"]},"name":"X-Api-Key"},{"value":"b","name":"a"}]"#,
            ),
            (
                r#"{"Value":123456,"x":{"value":1,"name":"y"},"Name":"DB_PASSWORD"}"#,
                r#"{"Value":"***","x":{"value":1,"name":"y"},"Name":"DB_PASSWORD"}"#,
            ),
        ] {
            assert_eq!(shown(text), redacted);
            assert_eq!(shown(redacted), redacted);
        }
    }

    #[test]
    fn counts_ids_and_descriptions_are_not_masked() {
        for text in [
            r#"{"max_tokens":100,"total_tokens":12,"tokens":12,"token_usage":{"input":5},"token_count":3,"key":65}"#,
            r#"{"_meta":{"progressToken":7},"pass":12,"password_length":8,"auth_time":1795031388}"#,
            r#"{"authorization_servers":["https://as.example/"],"token_endpoint_auth_methods_supported":["none"]}"#,
            r#"{"properties":{"password":{"type":"string","minLength":8,"description":"a word"},"key":{"anyOf":[{"type":"null"}]}}}"#,
            r#"{"properties":{"auth":{"type":"object","properties":{"user":{"type":"string"}},"required":["user"]}}}"#,
            r#"{"name":"max_tokens","value":100}"#,
            r#"{"value":100,"name":"temperature"}"#,
        ] {
            assert_eq!(shown(text), text);
        }
        let schema = r#"{"properties":{"token":{"type":"string","default":"hush","x":{"a":"b"}},"pin":{"const":1}}}"#;
        let redacted =
            r#"{"properties":{"token":{"type":"string","default":"***","x":{"a":"***"}},"pin":{"const":1}}}"#;
        assert_eq!(shown(schema), redacted);
        assert_eq!(shown(r#"{"properties":{"token":"hush"}}"#), r#"{"properties":{"token":"***"}}"#);
    }

    #[test]
    fn a_value_whose_name_is_beyond_the_cut_is_masked() {
        let rest = "x".repeat(2 * LONGEST_MESSAGE + MAX_BYTES_BEYOND);
        let shown = cut(&format!(r#"{{"value":"hush","rest":"{rest}","name":"password"}}"#));
        assert!(shown.starts_with(r#"{"value":"***","rest":"xxx"#), "{}", &shown[..50]);
        let shown = cut(&format!(r#"{{"name":"a","value":"b","rest":"{rest}"}}"#));
        assert!(shown.starts_with(r#"{"name":"a","value":"b","rest":"xxx"#), "{}", &shown[..50]);
    }

    #[test]
    fn a_known_number_is_masked() {
        learn(DIGITS, Life::Recent);
        assert_eq!(shown(r#"[8675309867,{"a":-8675309867},867530986]"#), r#"["***",{"a":"***"},867530986]"#);
    }

    /// A text in one of the spellings of JSON.
    fn spelled(text: &str, mut choice: u64) -> String {
        let mut out = "\"".to_owned();
        for letter in text.chars() {
            choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match (letter, choice >> 62) {
                ('"' | '\\' | '/', 0..=2) => out.extend(['\\', letter]),
                ('\n', 0..=2) => out.push_str("\\n"),
                ('"' | '\\' | '\n', _) | (_, 0) => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        out.push_str(&if choice & 1 == 0 {
                            format!("\\u{unit:04x}")
                        } else {
                            format!("\\u{unit:04X}")
                        });
                    }
                }
                _ => out.push(letter),
            }
        }
        out + "\""
    }

    /// JSON text with repeated names, escapes and blanks, and some secrets among its strings and numbers.
    fn json_text(secrets: &'static [&'static str]) -> impl Strategy<Value = String> {
        let pieces =
            prop_oneof![4 => "[a-f \n\"\\\\/é😀]{0,12}", 1 => prop::sample::select(secrets).prop_map(str::to_owned)];
        let string = (prop::collection::vec(pieces, 0..3), any::<u64>())
            .prop_map(|(pieces, choice)| spelled(&pieces.concat(), choice));
        let numbers = if secrets.contains(&DIGITS) { vec!["1", DIGITS] } else { vec!["1"] };
        let number = prop::sample::select(numbers);
        let leaf = prop_oneof![
            3 => string.clone(),
            1 => (number, "(\\.50)?(e3)?").prop_map(|(number, rest)| format!("-{number}{rest}")),
            1 => prop::sample::select(vec!["true", "null", "0", "1E-2"]).prop_map(str::to_owned),
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            let name = prop_oneof![3 => "\"[ab]?\"", 1 => string.clone()];
            let member =
                (name, "[ \n]?", inner.clone()).prop_map(|(name, blank, value)| format!("{name}{blank}:{value}"));
            prop_oneof![
                (prop::collection::vec(inner, 0..6), "[ \t]?")
                    .prop_map(|(items, blank)| format!("[{blank}{}]", items.join(","))),
                (prop::collection::vec(member, 0..6), "[ \r]?")
                    .prop_map(|(all, blank)| format!("{{{}{blank}}}", all.join(", "))),
            ]
        })
    }

    /// All strings, names of members and numbers in JSON text, as another parser reads them.
    fn texts(json: &RawValue, found: &mut Vec<String>) {
        match Kind::of(json) {
            Kind::Object => {
                for (name, value) in Members::of(json).unwrap().iter() {
                    found.push(name.to_owned());
                    texts(value, found);
                }
            }
            Kind::Array => values::items(json.get()).unwrap().into_iter().for_each(|item| texts(item, found)),
            Kind::String => found.push(serde_json::from_str(json.get()).unwrap()),
            Kind::Number => found.push(json.get().to_owned()),
            Kind::Bool | Kind::Null => {}
        }
    }

    proptest! {
        #[test]
        fn no_known_secret_stays_in_any_json(
            text in json_text(&[SECRET, DIGITS]),
            max_bytes in prop_oneof![Just(usize::MAX), 0..200_usize],
        ) {
            learn(SECRET, Life::Recent);
            learn(DIGITS, Life::Recent);
            let raw = json::raw(text.clone());
            let redacted = redacted(&raw, &rules(max_bytes)).unwrap_or(raw);
            prop_assert!(redacted.get().len() <= max_bytes.saturating_add(200));
            let mut found = Vec::new();
            texts(&redacted, &mut found);
            for part in found {
                let has_secret = part.contains(&SECRET[..8]) || part.contains(&DIGITS[..8]);
                prop_assert!(!has_secret, "{text} -> {redacted}");
            }
        }

        #[test]
        fn json_without_secrets_is_unchanged(text in json_text(&[""])) {
            prop_assert!(redact_raw(&json::raw(text.clone())).is_none(), "{text}");
        }
    }
}
