//! The wire format of Protocol Buffers, as far as OTLP needs it: writing only.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    /// The bytes of the message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A field with bytes.
    pub(super) fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A field with text. An empty text is the default and is left out.
    pub(super) fn text(self, field: u32, text: &str) -> Self {
        if text.is_empty() { self } else { self.bytes(field, text.as_bytes()) }
    }

    /// A field with a message.
    pub(super) fn message(self, field: u32, message: Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// A repeated field with messages.
    pub(super) fn messages(self, field: u32, messages: impl Iterator<Item = Self>) -> Self {
        messages.fold(self, |written, message| written.message(field, message))
    }

    /// A field with an integer or an enumeration.
    pub(super) fn number(mut self, field: u32, number: u64) -> Self {
        self.tag(field, 0);
        self.varint(number);
        self
    }

    /// A field of the type `fixed64` or `sfixed64`.
    pub(super) fn fixed(mut self, field: u32, number: u64) -> Self {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A field of the type `double`.
    pub(super) fn double(self, field: u32, number: f64) -> Self {
        self.fixed(field, number.to_bits())
    }

    /// A repeated field of the type `fixed64` or `double`, packed.
    pub(super) fn packed(self, field: u32, numbers: impl Iterator<Item = u64>) -> Self {
        let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes)
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_encoding_guide_shows_them() {
        // The examples of the guide: `a = 150`, `b = "testing"`, `c = { a = 150 }`.
        assert_eq!(ProtobufMessage::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(ProtobufMessage::default().text(2, "testing").into_bytes(), *b"\x12\x07testing");
        let nested = ProtobufMessage::default().message(3, ProtobufMessage::default().number(1, 150));
        assert_eq!(nested.into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(ProtobufMessage::default().fixed(1, 1).into_bytes(), [0x09, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ProtobufMessage::default().number(16, u64::MAX).into_bytes().len(), 12);
        let packed = ProtobufMessage::default().packed(4, [1, 2].into_iter()).into_bytes();
        assert_eq!(packed, [0x22, 16, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
