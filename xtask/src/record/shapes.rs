//! The shapes of box-drawing and block characters.
//!
//! Fonts draw these characters differently, and often with gaps between rows.
//! Not here: where the shapes are drawn (`draw`).

/// The shape of one character within its cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Lines from the centre of the cell to the middle of these sides: left, right, up, down.
    Line { to: [bool; 4], is_round: bool },
    /// Filled parts of the cell: left, top, right and bottom of each, in eighths.
    Blocks(Vec<[u8; 4]>),
}

/// Returns the shape of a character, or none if it is drawn as text.
pub(super) fn shape(c: char) -> Option<Shape> {
    let line = |to: &str, is_round: bool| {
        let to = ['l', 'r', 'u', 'd'].map(|side| to.contains(side));
        Some(Shape::Line { to, is_round })
    };
    let blocks = |blocks: &[[u8; 4]]| Some(Shape::Blocks(blocks.to_vec()));
    const UPPER_LEFT: [u8; 4] = [0, 0, 4, 4];
    const UPPER_RIGHT: [u8; 4] = [4, 0, 8, 4];
    const LOWER_LEFT: [u8; 4] = [0, 4, 4, 8];
    const LOWER_RIGHT: [u8; 4] = [4, 4, 8, 8];
    const UPPER: [u8; 4] = [0, 0, 8, 4];
    const LOWER: [u8; 4] = [0, 4, 8, 8];
    match c {
        '─' => line("lr", false),
        '│' => line("ud", false),
        '┌' => line("rd", false),
        '┐' => line("ld", false),
        '└' => line("ru", false),
        '┘' => line("lu", false),
        '├' => line("rud", false),
        '┤' => line("lud", false),
        '┬' => line("lrd", false),
        '┴' => line("lru", false),
        '┼' => line("lrud", false),
        '╭' => line("rd", true),
        '╮' => line("ld", true),
        '╰' => line("ru", true),
        '╯' => line("lu", true),
        '█' => blocks(&[[0, 0, 8, 8]]),
        '▀' => blocks(&[UPPER]),
        '▁'..='▇' => {
            let rows = u8::try_from(c as u32 - '▁' as u32 + 1).ok()?;
            blocks(&[[0, 8 - rows, 8, 8]])
        }
        '▉'..='▏' => {
            let columns = 8 - u8::try_from(c as u32 - '▉' as u32 + 1).ok()?;
            blocks(&[[0, 0, columns, 8]])
        }
        // Many fonts do not have it.
        '⏸' => blocks(&[[1, 2, 3, 6], [5, 2, 7, 6]]),
        '▐' => blocks(&[[4, 0, 8, 8]]),
        '▔' => blocks(&[[0, 0, 8, 1]]),
        '▕' => blocks(&[[7, 0, 8, 8]]),
        '▖' => blocks(&[LOWER_LEFT]),
        '▗' => blocks(&[LOWER_RIGHT]),
        '▘' => blocks(&[UPPER_LEFT]),
        '▙' => blocks(&[UPPER_LEFT, LOWER]),
        '▚' => blocks(&[UPPER_LEFT, LOWER_RIGHT]),
        '▛' => blocks(&[UPPER, LOWER_LEFT]),
        '▜' => blocks(&[UPPER, LOWER_RIGHT]),
        '▝' => blocks(&[UPPER_RIGHT]),
        '▞' => blocks(&[UPPER_RIGHT, LOWER_LEFT]),
        '▟' => blocks(&[UPPER_RIGHT, LOWER]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_meet_those_of_their_neighbours() {
        let line = |c| match shape(c) {
            Some(Shape::Line { to, .. }) => to,
            other => panic!("{c}: {other:?}"),
        };
        assert_eq!(line('─'), [true, true, false, false]);
        assert_eq!(line('╭'), [false, true, false, true]);
        assert_eq!(line('┼'), [true; 4]);
        assert_eq!(shape('a'), None);
    }

    #[test]
    fn eighths_grow_from_below_and_shrink_from_the_right() {
        let blocks = |c| match shape(c) {
            Some(Shape::Blocks(blocks)) => blocks,
            other => panic!("{c}: {other:?}"),
        };
        assert_eq!(blocks('▁'), [[0, 7, 8, 8]]);
        assert_eq!(blocks('▄'), [[0, 4, 8, 8]]);
        assert_eq!(blocks('▌'), [[0, 0, 4, 8]]);
        assert_eq!(blocks('▏'), [[0, 0, 1, 8]]);
    }
}
