//! Pictures: SVG, or PNG with a font of its own, so that neither needs anything of the system.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{IntoSegmentedCoord, SegmentValue, SegmentedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordi32;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::report::{Report, grouped};

/// Colours that stay apart for the colour-blind and in grey.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 140, 40),
    RGBColor(100, 60, 160),
    RGBColor(120, 120, 120),
    RGBColor(160, 110, 0),
];
const FONT: &str = "sans-serif";
const TEXT: u32 = 20;
const SMALL: u32 = 16;

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<DB> = DrawingArea<DB, Shift>;
/// An axis of groups by number.
type Groups = SegmentedCoord<RangedCoordi32>;

/// One bar of a group.
#[derive(Clone, Debug)]
pub struct Bar {
    pub value: f64,
    /// What is written above it.
    pub label: String,
    /// From where to where single rounds went.
    pub spread: Option<(f64, f64)>,
}

/// Bars in groups: a group a row, a bar a server (or none).
#[derive(Clone, Debug)]
pub struct Bars {
    pub title: String,
    pub unit: String,
    pub series: Vec<String>,
    pub groups: Vec<(String, Vec<Option<Bar>>)>,
    pub logarithmic: bool,
}

/// Draws the runs: latency by percentile, throughput and p99 over time.
pub fn runs(path: &Path, runs: &[Report]) -> Result<(), String> {
    let curves = curves(runs);
    if curves.is_empty() {
        return Err(format!("{}: nothing was measured", path.display()));
    }
    draw(path, (1200, 900), Picture::Runs(runs, &curves))
}

/// Draws charts of bars, one below the other.
pub fn bars(path: &Path, charts: &[Bars]) -> Result<(), String> {
    draw(path, (1200, 420 * charts.len().max(1) as u32), Picture::Bars(charts))
}

enum Picture<'a> {
    Runs(&'a [Report], &'a [(String, &'a [(f64, f64)])]),
    Bars(&'a [Bars]),
}

fn draw(path: &Path, size: (u32, u32), picture: Picture<'_>) -> Result<(), String> {
    // A second registration does nothing.
    let _ = register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
    let _ = register_font(FONT, FontStyle::Bold, epaint_default_fonts::UBUNTU_LIGHT);
    let drawn = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => on(&SVGBackend::new(path, size).into_drawing_area(), &picture),
        Some("png") => on(&BitMapBackend::new(path, size).into_drawing_area(), &picture),
        _ => return Err(format!("{}: pictures are .svg or .png", path.display())),
    };
    drawn.map_err(|error| format!("{}: {error}", path.display()))
}

fn on<DB: DrawingBackend>(root: &Area<DB>, picture: &Picture<'_>) -> Drawn
where
    DB::ErrorType: 'static,
{
    root.fill(&WHITE)?;
    match picture {
        Picture::Runs(runs, curves) => {
            let (upper, lower) = root.split_vertically(470);
            let (left, right) = lower.split_horizontally(600);
            percentiles(&upper, curves)?;
            let rates = over_time(runs, |interval| interval.all.count as f64 / interval.seconds.max(1e-9));
            line_chart(&left, "Throughput", "requests a second", &rates, true)?;
            let p99 = over_time(runs, |interval| interval.all.p99_ms);
            line_chart(&right, "p99 latency", "milliseconds", &p99, false)?;
        }
        Picture::Bars(charts) => {
            for (area, chart) in root.split_evenly((charts.len(), 1)).iter().zip(charts.iter()) {
                bar_chart(area, chart)?;
            }
        }
    }
    root.present()?;
    Ok(())
}

/// A curve for each command, named by workload too if there are several.
fn curves(runs: &[Report]) -> Vec<(String, &[(f64, f64)])> {
    let mut curves = Vec::new();
    for run in runs {
        for command in &run.commands {
            let name = match (runs.len(), command.name == run.workload) {
                (1, _) | (_, true) => command.name.clone(),
                _ => format!("{} {}", run.workload, command.name),
            };
            curves.push((name, &command.curve[..]));
        }
    }
    curves
}

fn over_time(runs: &[Report], value: impl Fn(&crate::report::Interval) -> f64) -> Vec<(String, Vec<(f64, f64)>)> {
    runs.iter()
        .map(|run| {
            // A last interval that is much shorter says little.
            let usual = run.over_time.first().map_or(0.0, |interval| interval.seconds);
            let whole = run.over_time.iter().filter(|interval| interval.seconds >= usual / 2.0);
            (run.workload.clone(), whole.map(|interval| (interval.at_s, value(interval))).collect())
        })
        .collect()
}

/// Where a percentile stands: each nine is as wide as the one before.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(1e-9).log10()
}

/// As many percentiles as there are nines to tell.
fn nines_label(nines: f64) -> String {
    match nines.round() as i32 {
        0 => "min".into(),
        1 => "p90".into(),
        2 => "p99".into(),
        more => format!("p99.{}", "9".repeat(more.clamp(3, 9) as usize - 2)),
    }
}

fn percentiles<DB: DrawingBackend>(area: &Area<DB>, curves: &[(String, &[(f64, f64)])]) -> Drawn
where
    DB::ErrorType: 'static,
{
    let points = || curves.iter().flat_map(|(_, curve)| curve.iter());
    let right = points().map(|(percentile, _)| nines(*percentile)).fold(1.0, f64::max);
    let (low, high) = decades(points().map(|(_, ms)| *ms));
    let mut chart = ChartBuilder::on(area)
        .caption("Latency by percentile", (FONT, TEXT + 4))
        .margin(16)
        .x_label_area_size(52)
        .y_label_area_size(96)
        .build_cartesian_2d(0.0..right, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_labels(right as usize + 1)
        .y_labels(12)
        .x_desc("percentile (each step: ten times rarer)")
        .y_desc("milliseconds (logarithmic)")
        .x_label_formatter(&|x| nines_label(*x))
        .y_label_formatter(&|y| short(*y))
        .label_style((FONT, SMALL))
        .axis_desc_style((FONT, TEXT))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for (at, (name, curve)) in curves.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let line = curve.iter().map(|(percentile, ms)| (nines(*percentile), ms.max(low)));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(3)))?
            .label(name.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 22, y + 5)], colour.filled()));
    }
    // Latency grows to the right, so the corner below is free.
    legend(&mut chart, SeriesLabelPosition::LowerRight)?;
    Ok(())
}

fn line_chart<DB: DrawingBackend>(
    area: &Area<DB>,
    title: &str,
    unit: &str,
    lines: &[(String, Vec<(f64, f64)>)],
    with_legend: bool,
) -> Drawn
where
    DB::ErrorType: 'static,
{
    let points = || lines.iter().flat_map(|(_, line)| line.iter());
    let right = points().map(|(s, _)| *s).fold(0.0, f64::max).max(0.01);
    let top = points().map(|(_, value)| *value).fold(0.0, f64::max).max(1e-3) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, TEXT + 4))
        .margin(16)
        .x_label_area_size(52)
        .y_label_area_size(96)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .x_labels(8)
        .y_labels(6)
        .x_desc("seconds")
        .y_desc(unit)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .label_style((FONT, SMALL))
        .axis_desc_style((FONT, TEXT))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for (at, (name, line)) in lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let series = match line[..] {
            // One interval is no line.
            [one] => chart.draw_series([Circle::new(one, 5, colour.filled())])?,
            _ => chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(3)))?,
        };
        series
            .label(name.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 22, y + 5)], colour.filled()));
    }
    if with_legend {
        legend(&mut chart, SeriesLabelPosition::LowerRight)?;
    }
    Ok(())
}

fn legend<'a, DB: DrawingBackend + 'a, C: plotters::coord::CoordTranslate>(
    chart: &mut ChartContext<'a, DB, C>,
    position: SeriesLabelPosition,
) -> Drawn
where
    DB::ErrorType: 'static,
{
    chart
        .configure_series_labels()
        .position(position)
        .label_font((FONT, SMALL + 2))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .margin(8)
        .draw()?;
    Ok(())
}

fn bar_chart<DB: DrawingBackend>(area: &Area<DB>, chart: &Bars) -> Drawn
where
    DB::ErrorType: 'static,
{
    let values = || {
        let bars = chart.groups.iter().flat_map(|(_, bars)| bars.iter().flatten());
        bars.flat_map(|bar| [bar.value, bar.spread.map_or(bar.value, |(_, high)| high)])
    };
    let (low, top) = if chart.logarithmic {
        let (low, high) = decades(values());
        (low, high * 2.0)
    } else {
        (0.0, values().fold(0.0, f64::max).max(1e-9) * 1.18)
    };
    let groups = chart.groups.len() as i32;
    let mut builder = ChartBuilder::on(area);
    builder.caption(chart.title.as_str(), (FONT, TEXT + 4)).margin(16).x_label_area_size(34).y_label_area_size(96);
    // Bars of linear and of logarithmic charts differ by the axis only, which is another type.
    if chart.logarithmic {
        let mut context = builder.build_cartesian_2d((0..groups - 1).into_segmented(), (low..top).log_scale())?;
        let steps = (top / low).log10().ceil() as usize + 1;
        bars_on(&mut context, chart, low, steps)
    } else {
        let mut context = builder.build_cartesian_2d((0..groups - 1).into_segmented(), low..top)?;
        bars_on(&mut context, chart, low, 6)
    }
}

fn bars_on<'a, DB, Y>(
    context: &mut ChartContext<'a, DB, Cartesian2d<Groups, Y>>,
    chart: &Bars,
    low: f64,
    steps: usize,
) -> Drawn
where
    DB: DrawingBackend + 'a,
    DB::ErrorType: 'static,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(group) => {
            chart.groups.get(*group as usize).map_or(String::new(), |(name, _)| name.clone())
        }
        _ => String::new(),
    };
    context
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(chart.groups.len())
        .y_labels(steps)
        .y_desc(chart.unit.as_str())
        .x_label_formatter(&name)
        .y_label_formatter(&|y| short(*y))
        .label_style((FONT, SMALL))
        .axis_desc_style((FONT, TEXT))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    // Places within a group in pixels, as the axis knows only whole groups.
    let (width, _) = context.plotting_area().dim_in_pixel();
    let slot = f64::from(width) / chart.groups.len().max(1) as f64;
    let bar = (slot * 0.86 / chart.series.len().max(1) as f64).min(120.0);
    let left = -bar * chart.series.len() as f64 / 2.0;
    let crowded = bar < 34.0;
    let area = context.plotting_area();
    let pixel = |group: usize, value: f64| area.map_coordinate(&(SegmentValue::CenterOf(group as i32), value));
    let screen = area.strip_coord_spec();
    let (origin_x, origin_y) = screen.get_base_pixel();
    let text = (FONT, if crowded { SMALL - 4 } else { SMALL }).into_font().color(&BLACK);
    let centred = text.pos(plotters::style::text_anchor::Pos::new(
        plotters::style::text_anchor::HPos::Center,
        plotters::style::text_anchor::VPos::Bottom,
    ));
    for (group, (_, bars)) in chart.groups.iter().enumerate() {
        for (at, found) in bars.iter().enumerate() {
            let Some(found) = found else { continue };
            let colour = COLOURS[at % COLOURS.len()];
            let (centre, top) = pixel(group, found.value.max(low));
            let (_, bottom) = pixel(group, low);
            let x0 = centre - origin_x + (left + bar * at as f64) as i32 + 1;
            let x1 = centre - origin_x + (left + bar * (at + 1) as f64) as i32 - 1;
            let (top, bottom) = (top - origin_y, bottom - origin_y);
            screen.draw(&Rectangle::new([(x0, top), (x1, bottom)], colour.filled()))?;
            let mut label_y = top;
            if let Some((least, most)) = found.spread {
                let (y0, y1) = (pixel(group, least.max(low)).1 - origin_y, pixel(group, most.max(low)).1 - origin_y);
                let x = i32::midpoint(x0, x1);
                screen.draw(&PathElement::new(vec![(x, y0), (x, y1)], BLACK.stroke_width(2)))?;
                for y in [y0, y1] {
                    screen.draw(&PathElement::new(vec![(x - 5, y), (x + 5, y)], BLACK.stroke_width(2)))?;
                }
                label_y = label_y.min(y1);
            }
            screen.draw(&Text::new(found.label.clone(), (i32::midpoint(x0, x1), label_y - 3), centred.clone()))?;
        }
    }
    // Series that draw nothing, for the legend.
    for (at, name) in chart.series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        context
            .draw_series(std::iter::empty::<PathElement<(SegmentValue<i32>, f64)>>())?
            .label(name.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 22, y + 5)], colour.filled()));
    }
    legend(context, SeriesLabelPosition::UpperRight)
}

/// The powers of ten around all values.
fn decades(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0.0f64);
    for value in values.filter(|value| *value > 0.0) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return (0.001, 1.0);
    }
    let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
    (low, if high > low { high } else { low * 10.0 })
}

/// A number for an axis.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        size if size >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        size if size >= 1e3 => grouped(value),
        _ => trimmed(value),
    }
}

/// A number beside a bar: three digits.
pub fn rounded(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 999_500.0 => (value / 1e6, "M"),
        size if size >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let places = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.places$}{unit}")
}

/// As many digits as it takes, four behind the point at most.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_axes() {
        for (value, text) in
            [(0.0, "0"), (0.001, "0.001"), (2.5, "2.5"), (1500.0, "1,500"), (25_000.0, "25k"), (1.5e6, "1.5M")]
        {
            assert_eq!(short(value), text);
        }
        for (value, text) in [(1.234, "1.23"), (12.34, "12.3"), (999.4, "999"), (66_322.1, "66.3k"), (1.5e6, "1.50M")] {
            assert_eq!(rounded(value), text);
        }
        assert_eq!([nines_label(0.0), nines_label(2.0), nines_label(4.0)], ["min", "p99", "p99.99"]);
        assert_eq!(decades([0.02, 3.0].into_iter()), (0.01, 10.0));
        assert_eq!(decades([1.0].into_iter()), (1.0, 10.0));
    }

    #[test]
    fn pictures_of_bars_name_what_they_show() {
        let bar =
            |value: f64| Some(Bar { value, label: format!("{value} ns"), spread: Some((value * 0.9, value * 1.2)) });
        for logarithmic in [false, true] {
            let chart = Bars {
                title: "CPU a request".into(),
                unit: "nanoseconds".into(),
                series: vec!["floor".into(), "redis".into()],
                groups: vec![("set".into(), vec![bar(100.0), bar(900.0)]), ("get".into(), vec![bar(80.0), None])],
                logarithmic,
            };
            let path = std::env::temp_dir().join(format!("dolmen-bench-{}-{logarithmic}.svg", std::process::id()));
            bars(&path, &[chart]).expect("a picture");
            let svg = std::fs::read_to_string(&path).expect("an SVG");
            std::fs::remove_file(&path).expect("it was there");
            for text in ["CPU a request", "nanoseconds", "floor", "redis", "set", "get", "900 ns"] {
                assert!(svg.contains(text), "{text} in the picture");
            }
        }
        assert!(bars(Path::new("x.gif"), &[]).is_err());
    }
}
