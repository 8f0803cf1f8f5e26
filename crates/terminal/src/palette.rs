//! The palette: the colours behind the indexes that programs name and ask about.
//! Not here: which colours the person's terminal has (`screen`).

use crate::screen::Colours;
use alacritty_terminal::vte::ansi::{NamedColor, Rgb};

/// The colours we claim to have: those of the person's terminal, and the usual sixteen.
pub(crate) fn colour(index: usize, (ink, paper): Colours) -> Rgb {
    let (r, g, b) = match index {
        _ if index == NamedColor::Background as usize => paper.into(),
        _ if index == NamedColor::Foreground as usize => ink.into(),
        _ => palette(index),
    };
    Rgb { r, g, b }
}

/// As eyes weigh it: green more than red, and red more than blue.
pub(crate) fn is_light([r, g, b]: [u8; 3]) -> bool {
    299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) > 128_000
}

/// The colours behind the indexes.
pub(crate) fn palette(index: usize) -> (u8, u8, u8) {
    const SIXTEEN: [(u8, u8, u8); 16] = [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
        (127, 127, 127),
        (255, 0, 0),
        (0, 255, 0),
        (255, 255, 0),
        (92, 92, 255),
        (255, 0, 255),
        (0, 255, 255),
        (255, 255, 255),
    ];
    match index {
        0..=15 => SIXTEEN[index],
        16..=231 => {
            let level = |n: usize| [0, 95, 135, 175, 215, 255][n % 6];
            (level((index - 16) / 36), level((index - 16) / 6), level(index - 16))
        }
        232..=255 => {
            let grey = u8::try_from(8 + 10 * (index - 232)).unwrap_or(u8::MAX);
            (grey, grey, grey)
        }
        _ if index == NamedColor::Background as usize => (0, 0, 0),
        _ => (229, 229, 229),
    }
}
