//! Draws an animation as one SVG without scripts or external resources.
//!
//! Each distinct row is one group, with CSS keyframes for the times at which it is visible. Readers
//! who prefer reduced motion see the last frame. Each run of text is stretched to the width of its
//! cells, so the columns stay aligned in any font.
//!
//! Invariant: whatever the terminals show, the result is well-formed and contains no script.
//! Not here: what is shown when (`panes`).

use std::fmt::Write as _;

use synapse_terminal::runs::{CellColour, CellStyle, TextRun};

use super::panes::{Animation, Pane, Row};
use super::shapes::{Shape, shape};

/// The colours of text and background. The recorded programs get the same ones when they ask.
pub(super) const COLOURS: ([u8; 3], [u8; 3]) = ([0xe6, 0xed, 0xf3], [0x0d, 0x11, 0x17]);
/// The first sixteen colours, for a dark background.
const PALETTE: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
    "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
];
/// The size of a cell in tenths of a pixel. Most monospaced fonts have this width at 14 pixels.
const CELL: (usize, usize) = (84, 190);
/// The distance from the top of a cell to the baseline of its text.
const BASE: usize = 140;
/// The space around and between the panes, and within each pane.
const MARGIN: usize = 110;
const PAD: usize = 100;
/// The heights of a pane's title and of the caption.
const HEAD: usize = 320;
const FOOT: usize = 480;

/// Draws the animation.
pub(super) fn draw(panes: &[Pane], animation: &Animation, about: &str) -> String {
    let mut painter = Painter { total_ms: animation.ms.max(1), ..Painter::default() };
    let (mut x, mut height, mut body) = (MARGIN, 0, String::new());
    for (n, pane) in panes.iter().enumerate() {
        let size = pane.recording.size;
        let wide = usize::from(size.columns()) * CELL.0 + 2 * PAD;
        let high = usize::from(size.rows()) * CELL.1 + HEAD + PAD;
        frame(&mut body, (x, MARGIN), (wide, high), pane.command);
        let _ = writeln!(body, "<g transform=\"translate({} {})\">", px(x + PAD), px(MARGIN + HEAD));
        for row in 0..usize::from(size.rows()) {
            let versions =
                values_over_time(animation, |frame| frame.panes[n].get(row).cloned().unwrap_or_default());
            for (version, times) in versions {
                let drawn = painter.row(&version, row * CELL.1, n == 0);
                painter.group(&mut body, &drawn, times);
            }
        }
        body.push_str("</g>\n");
        x += wide + MARGIN;
        height = height.max(high);
    }
    for (caption, times) in values_over_time(animation, |frame| frame.caption.clone()) {
        let (x, y) = (px(x / 2), px(MARGIN + height + 310));
        let drawn = format!("<text class=\"c\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(&caption));
        painter.group(&mut body, if caption.is_empty() { "" } else { &drawn }, times);
    }
    let (width, height) = (px(x), px(MARGIN + height + FOOT));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" xml:space=\"preserve\" \
         role=\"img\">\n<title>{}</title>\n<style>\n{}</style>\n\
         <rect class=\"o\" width=\"{width}\" height=\"{height}\" rx=\"12\"/>\n{body}</svg>\n",
        escaped(about),
        painter.style()
    )
}

/// Draws the box of a pane. Its title is the command that started the program.
fn frame(body: &mut String, (x, y): (usize, usize), (wide, high): (usize, usize), command: &str) {
    let (left, top, width, height) = (px(x), px(y), px(wide), px(high));
    let _ = writeln!(
        body,
        "<rect class=\"p\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>"
    );
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"{}\"><tspan class=\"d\">$</tspan> <tspan font-weight=\"bold\">{}</tspan></text>",
        px(x + PAD),
        px(y + 210),
        escaped(command)
    );
}

/// All distinct values over the time of the animation, each with the times from and until which it
/// is shown.
fn values_over_time<T: PartialEq>(
    animation: &Animation,
    of: impl Fn(&super::panes::Frame) -> T,
) -> Vec<(T, Vec<(u64, u64)>)> {
    let mut versions: Vec<(T, Vec<(u64, u64)>)> = Vec::new();
    for (n, frame) in animation.frames.iter().enumerate() {
        let until = animation.frames.get(n + 1).map_or(animation.ms, |next| next.at_ms);
        let version = of(frame);
        match versions.iter_mut().find(|(known, _)| *known == version) {
            Some((_, times)) => match times.last_mut().filter(|last| last.1 == frame.at_ms) {
                Some(last) => last.1 = until,
                None => times.push((frame.at_ms, until)),
            },
            None => versions.push((version, vec![(frame.at_ms, until)])),
        }
    }
    versions
}

/// Draws rows, and collects the classes that they use.
#[derive(Default)]
struct Painter {
    total_ms: u64,
    styles: Vec<CellStyle>,
    times: Vec<Vec<(u64, u64)>>,
}

impl Painter {
    /// Adds something that is visible at these times.
    fn group(&mut self, body: &mut String, drawn: &str, times: Vec<(u64, u64)>) {
        if drawn.is_empty() {
            return;
        }
        if times == [(0, self.total_ms)] {
            let _ = writeln!(body, "{drawn}");
            return;
        }
        let class = position(&mut self.times, times);
        let _ = writeln!(body, "<g class=\"k{class}\">{drawn}</g>");
    }

    /// Draws a row at this height.
    fn row(&mut self, row: &Row, top: usize, has_keyboard: bool) -> String {
        let mut out = String::new();
        for run in &row.runs {
            if run.style.paper != CellColour::Background {
                rect(
                    &mut out,
                    (run.column * CELL.0, top),
                    (run.width * CELL.0, CELL.1),
                    tint(run.style.paper),
                );
            }
            self.run(&mut out, run, top);
        }
        if let Some(column) = row.cursor {
            let (x, y, width, height) = (px(column * CELL.0), px(top), px(CELL.0), px(CELL.1));
            let class = if has_keyboard { "u" } else { "u d" };
            let _ = write!(
                out,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
            );
        }
        out
    }

    fn run(&mut self, out: &mut String, run: &TextRun, top: usize) {
        let class = self.class(run.style);
        let chars: Vec<char> = run.text.chars().collect();
        // With wide or combining characters it is unknown which cells a character has.
        if chars.len() != run.width {
            return text(out, class.as_deref(), &run.text, (run.column, run.width), top);
        }
        for part in chunks(&chars) {
            let cells: String = chars[part.clone()].iter().collect();
            let place = (run.column + part.start, part.len());
            match shape(chars[part.start]) {
                Some(shape) => draw_shape(out, class.as_deref(), &shape, place, top),
                None => {
                    let rest = cells.trim_start();
                    let before = cells.chars().count() - rest.chars().count();
                    let rest = rest.trim_end();
                    text(out, class.as_deref(), rest, (place.0 + before, rest.chars().count()), top);
                }
            }
        }
    }

    /// The class of text with this style, or none if it is plain.
    fn class(&mut self, style: CellStyle) -> Option<String> {
        let style = CellStyle { paper: CellColour::Background, ..style };
        (style != CellStyle::PLAIN).then(|| format!("x{}", position(&mut self.styles, style)))
    }

    fn style(&self) -> String {
        let mut css = format!(
            "svg{{color:{text}}}.d{{color:#7d8590;fill:#7d8590}}\n\
             rect{{fill:currentColor;shape-rendering:crispEdges}}\n\
             .o,.p{{shape-rendering:auto;stroke:#30363d}}.o{{fill:#161b22}}.p{{fill:{background}}}\n\
             .u{{fill-opacity:.6}}.u.d{{fill:none;stroke:currentColor}}\n\
             text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
             fill:currentColor;white-space:pre}}\n\
             .c{{font:600 17px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;text-anchor:middle}}\n\
             .l{{fill:none;stroke:currentColor}}\n",
            text = hex(COLOURS.0),
            background = hex(COLOURS.1)
        );
        for (n, style) in self.styles.iter().enumerate() {
            let _ = writeln!(css, ".x{n}{{{}}}", styles(*style));
        }
        let seconds = self.total_ms as f64 / 1000.0;
        let _ = writeln!(css, "[class^=k]{{visibility:hidden;animation:{seconds}s step-end infinite}}");
        for (n, times) in self.times.iter().enumerate() {
            css.push_str(&self.keyframes(n, times));
        }
        css + "@media(prefers-reduced-motion:reduce){[class^=k]{animation:none}}\n"
    }

    fn keyframes(&self, n: usize, times: &[(u64, u64)]) -> String {
        let percent = |ms: u64| {
            let thousandths = (ms as f64 * 100_000.0 / self.total_ms as f64).round() / 1000.0;
            format!("{thousandths}%")
        };
        let mut frames = if times.iter().any(|time| time.0 == 0) {
            String::new()
        } else {
            "0%{visibility:hidden}".to_owned()
        };
        let is_last = times.iter().any(|time| time.1 == self.total_ms);
        for (from, until) in times {
            let _ = write!(frames, "{}{{visibility:visible}}", percent(*from));
            if *until < self.total_ms {
                let _ = write!(frames, "{}{{visibility:hidden}}", percent(*until));
            }
        }
        let still = if is_last { ";visibility:visible" } else { "" };
        format!(".k{n}{{animation-name:k{n}{still}}}@keyframes k{n}{{{frames}}}\n")
    }
}

/// The parts that are drawn as one: a repeated character with a shape, or text.
fn chunks(chars: &[char]) -> Vec<std::ops::Range<usize>> {
    let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
    for (n, c) in chars.iter().enumerate() {
        let joins = |part: &std::ops::Range<usize>| {
            let before = chars[part.end - 1];
            if shape(*c).is_some() { before == *c && is_wide(*c) } else { shape(before).is_none() }
        };
        match parts.last_mut().filter(|part| joins(part)) {
            Some(part) => part.end = n + 1,
            None => parts.push(n..n + 1),
        }
    }
    parts
}

/// Whether a row of these characters is one shape, because all of their parts span the cell.
fn is_wide(c: char) -> bool {
    match shape(c) {
        Some(Shape::Line { to, .. }) => to == [true, true, false, false],
        Some(Shape::Blocks(blocks)) => blocks.iter().all(|block| block[0] == 0 && block[2] == 8),
        None => false,
    }
}

fn text(out: &mut String, class: Option<&str>, text: &str, (column, width): (usize, usize), top: usize) {
    if text.trim().is_empty() {
        return;
    }
    let class = class.map_or_else(String::new, |class| format!(" class=\"{class}\""));
    let length = if width > 1 { format!(" textLength=\"{}\"", px(width * CELL.0)) } else { String::new() };
    let (x, y) = (px(column * CELL.0), px(top + BASE));
    let _ = write!(out, "<text{class} x=\"{x}\" y=\"{y}\"{length}>{}</text>", escaped(text));
}

fn draw_shape(
    out: &mut String,
    class: Option<&str>,
    shape: &Shape,
    (column, width): (usize, usize),
    top: usize,
) {
    let left = column * CELL.0;
    let class = class.unwrap_or_default();
    match shape {
        Shape::Line { to, is_round } => {
            let _ =
                write!(out, "<path class=\"l {class}\" d=\"{}\"/>", path(*to, *is_round, (left, top), width));
        }
        Shape::Blocks(blocks) => {
            let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
            for [from, upper, to, lower] in blocks.iter().map(|block| block.map(usize::from)) {
                let x = left + from * CELL.0 / 8;
                let right = left + (width - 1) * CELL.0 + to * CELL.0 / 8;
                let (y, end) = (top + upper * CELL.1 / 8, top + lower * CELL.1 / 8);
                let _ = write!(
                    out,
                    "<rect{class} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                    px(x),
                    px(y),
                    px(right - x),
                    px(end - y)
                );
            }
        }
    }
}

fn path(to: [bool; 4], is_round: bool, (left, top): (usize, usize), width: usize) -> String {
    let (x, y) = (left + CELL.0 / 2, top + CELL.1 / 2);
    let right = left + width * CELL.0;
    let ends = [(left, y), (right, y), (x, top), (x, top + CELL.1)];
    let to: Vec<(usize, usize)> =
        ends.into_iter().zip(to).filter_map(|(end, is)| is.then_some(end)).collect();
    let at = |(x, y): (usize, usize)| format!("{} {}", px(x), px(y));
    match to[..] {
        [from, until] if is_round => format!("M{}Q{} {}", at(from), at((x, y)), at(until)),
        [from, until] if from.1 == until.1 || from.0 == until.0 => format!("M{}L{}", at(from), at(until)),
        _ => to.into_iter().map(|end| format!("M{}L{}", at((x, y)), at(end))).collect(),
    }
}

fn rect(out: &mut String, (x, y): (usize, usize), (width, height): (usize, usize), fill: String) {
    let _ = write!(
        out,
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" style=\"fill:{fill}\"/>",
        px(x),
        px(y),
        px(width),
        px(height)
    );
}

fn styles(style: CellStyle) -> String {
    let mut css = format!("color:{}", tint(style.ink));
    for (is_so, rule) in [
        (style.is_bold, ";font-weight:bold"),
        (style.is_dim, ";opacity:.65"),
        (style.is_italic, ";font-style:italic"),
        (style.is_underlined, ";text-decoration:underline"),
        (style.is_struck, ";text-decoration:line-through"),
    ] {
        css.push_str(if is_so { rule } else { "" });
    }
    css
}

fn tint(tint: CellColour) -> String {
    match tint {
        CellColour::Text => hex(COLOURS.0),
        CellColour::Background => hex(COLOURS.1),
        CellColour::Palette(index) => PALETTE[usize::from(index) % PALETTE.len()].to_owned(),
        CellColour::Rgb(rgb) => hex(rgb),
    }
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Tenths of a pixel as a number of pixels.
fn px(tenths: usize) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

/// The index in the list. Adds the value if it is missing.
fn position<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// Escapes text for XML. Characters that XML does not allow become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::panes::tests::pane;
    use super::*;

    /// The picture of one terminal of 20 columns in which this happens.
    fn picture(events: &[(f64, &str)]) -> String {
        let panes = [pane("sh", events)];
        draw(&panes, &Animation::of(&panes), "about")
    }

    /// The part that draws the first row which has this.
    fn line<'a>(svg: &'a str, part: &str) -> &'a str {
        svg.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} is not in {svg}"))
    }

    /// The class of the group in which this is drawn, with what is said of it.
    fn rule<'a>(svg: &'a str, part: &str) -> &'a str {
        let class = line(svg, part).split('"').nth(1).unwrap();
        line(svg, &format!(".{class}{{"))
    }

    #[test]
    fn hostile_text_stays_text() {
        const HOSTILE: &str = "</text><script>&\"'";
        let panes = [pane(HOSTILE, &[(0.0, HOSTILE), (0.0, "# <b>&"), (0.5, "\r\u{fffe}\u{ffff}]]>")])];
        let svg = draw(&panes, &Animation::of(&panes), HOSTILE);
        const READ: &str = "import sys, xml.etree.ElementTree as tree\n\
            read = tree.fromstring(sys.stdin.buffer.read())\n\
            print(*sorted({one.tag.split('}')[1] for one in read.iter()}))\n\
            print(*(text for one in read.iter() if one.tag.endswith('t') for text in [one.text] if text))\n";
        let mut python = std::process::Command::new("python3")
            .args(["-c", READ])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut python.stdin.take().unwrap(), svg.as_bytes()).unwrap();
        let output = python.wait_with_output().unwrap();
        assert!(output.status.success(), "not well-formed: {svg}");
        let read = String::from_utf8(output.stdout).unwrap();
        let (tags, texts) = read.split_once('\n').unwrap();
        assert_eq!(tags, "g rect style svg text title tspan");
        assert!(texts.contains(HOSTILE) && texts.contains("<b>&"), "{texts}");
        assert!(texts.contains("\u{fffd}\u{fffd}]]>"), "{texts}");
    }

    #[test]
    fn rows_are_visible_while_the_terminal_shows_them() {
        let svg =
            picture(&[(0.0, "\x1b[?25lalways\r\n"), (1.0, "first"), (2.0, "\rother"), (3.0, "\rfirst")]);
        assert!(line(&svg, "always").starts_with("<text"), "{svg}");
        let first = "@keyframes k0{0%{visibility:hidden}12.5%{visibility:visible}25%{visibility:hidden}\
                     37.5%{visibility:visible}}";
        assert!(rule(&svg, ">first<").ends_with(first), "{}", rule(&svg, ">first<"));
        let other = "{0%{visibility:hidden}25%{visibility:visible}37.5%{visibility:hidden}}";
        assert!(rule(&svg, ">other<").ends_with(other), "{}", rule(&svg, ">other<"));
        assert!(svg.contains("animation:8s step-end infinite"), "{svg}");
    }

    #[test]
    fn last_frame_is_shown_without_motion() {
        let svg = picture(&[(0.0, "\x1b[?25lfirst"), (1.0, "\rother")]);
        assert!(!rule(&svg, ">first<").contains("k0;visibility:visible"), "{svg}");
        assert!(rule(&svg, ">other<").contains(";visibility:visible}@keyframes"), "{svg}");
        assert!(svg.contains("@media(prefers-reduced-motion:reduce){[class^=k]{animation:none}}"), "{svg}");
    }

    #[test]
    fn text_keeps_its_columns_and_colours() {
        let svg = picture(&[(0.0, "\x1b[?25l  ab\x1b[1;31mc\x1b[0m 世\x1b[7m d ")]);
        let row = line(&svg, ">ab<");
        assert!(row.contains("<text x=\"16.8\" y=\"14\" textLength=\"16.8\">ab</text>"), "{row}");
        assert!(row.contains("<text class=\"x0\" x=\"33.6\" y=\"14\">c</text>"), "{row}");
        assert!(row.contains("x=\"50.4\" y=\"14\" textLength=\"16.8\">世<"), "{row}");
        let inverse = format!("width=\"25.2\" height=\"19\" style=\"fill:{}\"", hex(COLOURS.0));
        assert!(row.contains(&inverse), "{row}");
        assert!(svg.contains(".x0{color:#ff7b72;font-weight:bold}"), "{svg}");
    }

    #[test]
    fn lines_and_blocks_are_shapes() {
        let svg = picture(&[(0.0, "\x1b[?25l╭──╮ ██▐ a")]);
        let row = line(&svg, ">a<");
        assert!(row.contains("d=\"M8.4 9.5L25.2 9.5\""), "one line for several cells: {row}");
        assert!(row.contains("d=\"M8.4 9.5Q4.2 9.5 4.2 19\""), "{row}");
        assert!(row.contains("<rect x=\"42\" y=\"0\" width=\"16.8\" height=\"19\"/>"), "{row}");
        assert!(row.contains("<rect x=\"63\" y=\"0\" width=\"4.2\" height=\"19\"/>"), "{row}");
        assert!(!row.contains('─') && !row.contains('█'), "{row}");
    }

    #[test]
    fn captions_are_below_the_panes() {
        let svg = picture(&[(0.0, "# one"), (1.0, "a"), (2.0, "# two")]);
        assert!(rule(&svg, ">one<").contains("{visibility:visible}28.571%{visibility:hidden}}"), "{svg}");
        assert!(rule(&svg, ">two<").contains(";visibility:visible"), "{svg}");
    }
}
