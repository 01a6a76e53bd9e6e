//! Goodput over offered load, as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A server's points: offered load and goodput, both in multiples of what fits; in order of the first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// The plot as an SVG element. None without points, and if it cannot be drawn.
pub(super) fn svg(name: &str, curves: &[Curve]) -> Option<String> {
    let mut text = String::new();
    let drawn = draw(name, curves, &SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area());
    (drawn.is_ok() && curves.iter().any(|curve| !curve.points.is_empty())).then_some(text)
}

fn draw(
    name: &str,
    curves: &[Curve],
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let text = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&BLACK);
    let title = format!("{name}: goodput over offered load, both in multiples of what fits");
    area.draw(&Text::new(title, (10, 8), text(15)))?;
    let scale = Scale::of(curves);
    let (bottom, right) = (HEIGHT as i32 - BOTTOM, WIDTH as i32 - RIGHT);
    area.draw(&PathElement::new([(LEFT, TOP), (LEFT, bottom), (right, bottom)], BLACK.stroke_width(1)))?;
    for &tick in &scale.ticks {
        let x = scale.x(tick);
        area.draw(&PathElement::new([(x, bottom), (x, bottom + 4)], BLACK.stroke_width(1)))?;
        let below = text(12).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(format!("{tick}"), (x, bottom + 6), below))?;
    }
    for tick in [0.0, 0.5, 1.0] {
        let y = scale.y(tick);
        area.draw(&PathElement::new([(LEFT, y), (right, y)], RGBColor(0xdd, 0xdd, 0xdd).stroke_width(1)))?;
        let beside = text(12).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(format!("{tick}"), (LEFT - 6, y), beside))?;
    }
    for (index, curve) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<(i32, i32)> = curve.points.iter().map(|&(x, y)| (scale.x(x), scale.y(y))).collect();
        for &point in &points {
            area.draw(&Circle::new(point, 3, colour.filled()))?;
        }
        area.draw(&PathElement::new(points, colour.stroke_width(2)))?;
        let label = text(12).color(&colour);
        area.draw(&Text::new(curve.name.clone(), (right + 12, TOP + 18 * index as i32), label))?;
    }
    Ok(area.present()?)
}

/// Where a value is: offered load on a logarithmic axis, goodput on a linear one.
struct Scale {
    ticks: Vec<f64>,
    /// Logarithms of the first and the last load.
    ends: (f64, f64),
    highest: f64,
}

impl Scale {
    fn of(curves: &[Curve]) -> Scale {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let mut ticks: Vec<f64> = points().map(|(x, _)| *x).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let ends = (ticks.first().map_or(0.0, |x| x.ln()), ticks.last().map_or(1.0, |x| x.ln()));
        Scale { ticks, ends, highest: points().map(|(_, y)| *y).fold(1.1, f64::max) }
    }

    fn x(&self, load: f64) -> i32 {
        let width = f64::from(WIDTH as i32 - LEFT - RIGHT);
        let share = (load.ln() - self.ends.0) / (self.ends.1 - self.ends.0).max(f64::EPSILON);
        LEFT + (share.clamp(0.0, 1.0) * width).round() as i32
    }

    fn y(&self, goodput: f64) -> i32 {
        let height = f64::from(HEIGHT as i32 - TOP - BOTTOM);
        HEIGHT as i32 - BOTTOM - (goodput.max(0.0) / self.highest * height).round() as i32
    }
}

const WIDTH: u32 = 760;
const HEIGHT: u32 = 300;
const LEFT: i32 = 44;
const RIGHT: i32 = 150;
const TOP: i32 = 40;
const BOTTOM: i32 = 30;
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1b, 0x5e, 0x9b),
    RGBColor(0x4f, 0xa3, 0xd9),
    RGBColor(0x6b, 0x8f, 0x5a),
    RGBColor(0xb8, 0x7a, 0x2e),
    RGBColor(0x8a, 0x5a, 0x9b),
    RGBColor(0x80, 0x80, 0x80),
];

#[cfg(test)]
mod tests {
    //! A plot holds its names, and its points are where they belong.

    use super::{Curve, HEIGHT, LEFT, RIGHT, Scale, TOP, WIDTH, svg};

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve { name: "plimsoll-uring".to_owned(), points: points.to_vec() }
    }

    #[test]
    fn points_are_where_they_belong() {
        let scale = Scale::of(&[curve(&[(0.5, 0.5), (20.0, 2.0)])]);
        assert_eq!((scale.x(0.5), scale.x(20.0)), (LEFT, WIDTH as i32 - RIGHT));
        assert_eq!((scale.y(2.0), scale.ticks.len()), (TOP, 2));
        assert!(scale.y(0.0) > scale.y(0.5) && scale.y(0.0) < HEIGHT as i32);
        let middle = scale.x((0.5_f64 * 20.0).sqrt());
        assert!((middle - i32::midpoint(LEFT, WIDTH as i32 - RIGHT)).abs() <= 1, "the axis is logarithmic: {middle}");
    }

    #[test]
    fn a_plot_holds_its_names() {
        let svg = |curves: &[Curve]| svg("sleep", curves);
        let shown = svg(&[curve(&[(1.0, 0.9), (5.0, 0.2)])]).unwrap();
        assert!(shown.starts_with("<svg") && shown.contains("plimsoll-uring") && shown.contains("sleep: goodput"));
        assert_eq!((svg(&[]), svg(&[curve(&[])])), (None, None));
    }
}
