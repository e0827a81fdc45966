//! The screen of a terminal, character by character. It supports the output of our own programs: text, ends of lines,
//! styles, and movements within a line.

/// How a character looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) bold: bool,
    pub(super) dim: bool,
    pub(super) italic: bool,
    pub(super) underlined: bool,
    /// One of the eight colours of a terminal.
    pub(super) colour: Option<u8>,
}

/// Lines of characters.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) columns: usize,
    pub(super) lines: Vec<Vec<(char, Look)>>,
    column: usize,
    look: Look,
}

impl Grid {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, lines: vec![Vec::new()], column: 0, look: Look::default() }
    }

    pub(super) fn write(&mut self, text: &str) {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\r' => self.column = 0,
                '\n' => self.feed(),
                '\u{8}' => self.column = self.column.saturating_sub(1),
                '\u{1b}' => {
                    let (mut numbers, mut kind) = (String::new(), None);
                    for character in characters.by_ref() {
                        match character {
                            '[' => {}
                            letter if letter.is_ascii_alphabetic() => {
                                kind = Some(letter);
                                break;
                            }
                            part => numbers.push(part),
                        }
                    }
                    self.control(&numbers, kind);
                }
                character if character.is_control() => {}
                character => self.put(character),
            }
        }
    }

    fn feed(&mut self) {
        self.column = 0;
        self.lines.push(Vec::new());
    }

    fn put(&mut self, character: char) {
        if self.column == self.columns {
            self.feed();
        }
        let (column, look) = (self.column, self.look);
        if let Some(line) = self.lines.last_mut() {
            if line.len() <= column {
                line.resize(column + 1, (' ', Look::default()));
            }
            line[column] = (character, look);
        }
        self.column += 1;
    }

    /// A sequence of numbers and the letter that says what they are for. Modes of the terminal change nothing here.
    fn control(&mut self, numbers: &str, kind: Option<char>) {
        let distance = numbers.parse().unwrap_or(1);
        match kind {
            Some('m') => self.style(numbers),
            Some('C') => self.column = (self.column + distance).min(self.columns),
            Some('D') => self.column = self.column.saturating_sub(distance),
            Some('K') => {
                let column = self.column;
                self.lines.last_mut().into_iter().for_each(|line| line.truncate(column));
            }
            _ => {}
        }
    }

    fn style(&mut self, numbers: &str) {
        for number in numbers.split(';') {
            match number.parse().unwrap_or(0) {
                0 => self.look = Look::default(),
                1 => self.look.bold = true,
                2 => self.look.dim = true,
                3 => self.look.italic = true,
                4 => self.look.underlined = true,
                colour @ 30..=37 => self.look.colour = Some(colour - 30),
                39 => self.look.colour = None,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_put_where_a_terminal_puts_it() {
        let mut grid = Grid::new(4);
        grid.write("ab\u{1b}[1;36mc\u{1b}[0mde\r\nx\rY");
        let text: Vec<String> = grid.lines.iter().map(|line| line.iter().map(|(c, _)| c).collect()).collect();
        assert_eq!(text, ["abcd", "e", "Y"]);
        assert_eq!(grid.lines[0][2].1, Look { bold: true, colour: Some(6), ..Look::default() });
        assert_eq!(grid.lines[0][3].1, Look::default());
    }

    #[test]
    fn an_edited_line_is_drawn_in_its_last_state() {
        let mut grid = Grid::new(20);
        grid.write(
            "\u{1b}[2mthinking\r\u{1b}[K\u{1b}[0m> \u{1b}[?2026h\r\u{1b}[K> helo\r\u{1b}[5C\u{1b}[?2026l\u{1b}[1Dllo",
        );
        let text: String = grid.lines[0].iter().map(|(c, _)| c).collect();
        assert_eq!((text.as_str(), grid.lines.len()), ("> hello", 1));
        assert!(grid.lines[0].iter().all(|(_, look)| *look == Look::default()));
    }
}
