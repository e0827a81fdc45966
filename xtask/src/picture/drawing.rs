//! A grid as SVG: a window with a title bar, and the text in the fonts of the reader's system.

use std::fmt::Write as _;

use super::grid::{Grid, Look};

/// The room of one character.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 19.0;
/// Around the text.
const MARGIN: f64 = 18.0;
const BAR: f64 = 34.0;

const PLAIN: &str = "#d6dbe4";
/// Black to white.
const COLOURS: [&str; 8] = ["#5c6370", "#f07178", "#a5d37a", "#e6c07b", "#82aaff", "#c792ea", "#7fdbe6", "#d6dbe4"];

/// The picture.
pub(super) fn draw(grid: &Grid) -> String {
    let is_empty = |line: &&Vec<(char, Look)>| line.iter().all(|(character, _)| *character == ' ');
    let count = grid.lines.len() - grid.lines.iter().rev().take_while(is_empty).count();
    let width = grid.columns as f64 * WIDTH + 2.0 * MARGIN;
    let height = count as f64 * HEIGHT + BAR + 1.5 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>A conversation with gladhand chat in a terminal</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"#1b1f27\"/>\n"
    );
    for (at, colour) in ["#f07178", "#e6c07b", "#a5d37a"].into_iter().enumerate() {
        let x = MARGIN + 4.0 + 20.0 * at as f64;
        put(&mut svg, format_args!("<circle cx=\"{x}\" cy=\"{}\" r=\"6\" fill=\"{colour}\"/>\n", BAR / 2.0 + 2.0));
    }
    svg += "<g font-family=\"monospace\" font-size=\"14\" xml:space=\"preserve\">\n";
    for (at, line) in grid.lines[..count].iter().enumerate() {
        let y = BAR + MARGIN / 2.0 + HEIGHT * (at as f64 + 0.75);
        let mut column = 0;
        for run in line.chunk_by(|(_, one), (_, other)| one == other) {
            draw_run(&mut svg, run, column, y);
            column += run.len();
        }
    }
    svg + "</g>\n</svg>\n"
}

/// Characters that look alike. Their length is told, so that they stand below each other in every font.
fn draw_run(svg: &mut String, run: &[(char, Look)], column: usize, y: f64) {
    let text: String = run.iter().map(|(character, _)| *character).collect();
    if text.trim().is_empty() {
        return;
    }
    let look = run[0].1;
    let colour = look.colour.map_or(PLAIN, |colour| COLOURS[usize::from(colour)]);
    let (x, length) = (MARGIN + column as f64 * WIDTH, run.len() as f64 * WIDTH);
    put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" fill=\"{colour}\""));
    for (is_so, attribute) in [
        (look.bold, " font-weight=\"bold\""),
        (look.italic, " font-style=\"italic\""),
        (look.underlined, " text-decoration=\"underline\""),
        (look.dim, " opacity=\"0.6\""),
    ] {
        svg.push_str(if is_so { attribute } else { "" });
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    put(svg, format_args!(">{text}</text>\n"));
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = svg.write_fmt(text);
}
