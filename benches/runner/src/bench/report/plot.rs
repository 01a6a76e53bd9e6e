//! Bars with whiskers, as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::table::is_floor;

/// What a plot shows: lower bars are better unless its title says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    pub(super) server: String,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// The plot as an SVG element. None of no bars, and if it cannot be drawn.
pub(super) fn svg(plot: &Bars) -> Option<String> {
    let mut text = String::new();
    let height = TOP + plot.bars.len() as u32 * ROW + BOTTOM;
    let drawn = draw(plot, &SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area());
    (drawn.is_ok() && !plot.bars.is_empty()).then_some(text)
}

fn draw(
    plot: &Bars,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> Result<(), Box<dyn std::error::Error>> {
    let highest = plot.bars.iter().map(|bar| bar.max).fold(0.0, f64::max);
    let scale = if highest > 0.0 { f64::from(WIDTH as i32 - LEFT - RIGHT) / highest } else { 0.0 };
    area.fill(&WHITE)?;
    let text = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&BLACK);
    area.draw(&Text::new(plot.title.clone(), (10, 8), text(15)))?;
    for (index, bar) in plot.bars.iter().enumerate() {
        let top = (TOP + index as u32 * ROW) as i32;
        let middle = top + ROW as i32 / 2;
        let at = |value: f64| LEFT + (value.max(0.0) * scale).round() as i32;
        let left = text(12).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(bar.server.clone(), (LEFT - 6, middle), left))?;
        let ends = [(LEFT, top + 3), (at(bar.median), top + ROW as i32 - 3)];
        area.draw(&Rectangle::new(ends, colour(&bar.server).filled()))?;
        area.draw(&PathElement::new([(at(bar.min), middle), (at(bar.max), middle)], BLACK.stroke_width(1)))?;
        let right = text(12).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(figure(bar.median), (at(bar.max) + 6, middle), right))?;
    }
    Ok(area.present()?)
}

/// Three digits that count.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn colour(server: &str) -> RGBColor {
    match server {
        server if server.starts_with("plimsoll") => RGBColor(0x1b, 0x5e, 0x9b),
        server if is_floor(server) => RGBColor(0xc8, 0xc8, 0xc8),
        _ => RGBColor(0x9a, 0xb6, 0x8f),
    }
}

const WIDTH: u32 = 760;
const TOP: u32 = 34;
const ROW: u32 = 22;
const BOTTOM: u32 = 10;
const LEFT: i32 = 160;
const RIGHT: i32 = 70;

#[cfg(test)]
mod tests {
    //! A plot holds its names and figures.

    use super::{Bar, Bars, svg};

    #[test]
    fn a_plot_holds_its_names_and_figures() {
        let bar =
            |server: &str, median: f64| Bar { server: server.to_owned(), median, min: median * 0.9, max: median * 1.1 };
        let plot = Bars { title: "CPU".to_owned(), bars: vec![bar("plimsoll-uring", 4.5), bar("hyper", 123.4)] };
        let svg = svg(&plot).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for shown in ["plimsoll-uring", "hyper", "4.50", "123", "CPU"] {
            assert!(svg.contains(shown), "{shown} in {svg}");
        }
        assert_eq!(super::svg(&Bars { bars: Vec::new(), ..plot }), None);
    }
}
