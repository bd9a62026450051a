//! Pictures: bars by workload, or, when there are several sizes, curves over the size. SVG, or PNG with a font of its own, so that neither
//! needs anything of the system.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, FontTransform, register_font};

use crate::report::{Outcome, distinct, mean};

/// Colours that stay apart for the colour-blind; what can be had in colours, the bound in grey.
const COLOURS: [RGBColor; 11] = [
    RGBColor(160, 110, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 114, 178),
    RGBColor(100, 60, 160),
    RGBColor(204, 121, 167),
    RGBColor(86, 140, 40),
    RGBColor(0, 158, 115),
    RGBColor(150, 150, 60),
    RGBColor(90, 200, 170),
    RGBColor(213, 94, 0),
];
const BOUND: RGBColor = RGBColor(150, 150, 150);
const FONT: &str = "sans-serif";
const TEXT: u32 = 20;
const SMALL: u32 = 15;
const PANEL: (u32, u32) = (900, 360);

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<DB> = DrawingArea<DB, Shift>;

/// Draws the hit ratios, a panel a workload.
pub fn draw(path: &Path, outcomes: &[Outcome]) -> Result<(), String> {
    let _ = register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
    let workloads = distinct(outcomes, |outcome| outcome.workload.clone()).len() as u32;
    let columns = if workloads > 1 { 2 } else { 1 };
    let size = (PANEL.0 * columns, PANEL.1 * workloads.div_ceil(columns).max(1));
    let drawn = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => on(&SVGBackend::new(path, size).into_drawing_area(), columns, outcomes),
        Some("png") => on(&BitMapBackend::new(path, size).into_drawing_area(), columns, outcomes),
        _ => return Err(format!("{}: pictures are .svg or .png", path.display())),
    };
    drawn.map_err(|error| format!("{}: {error}", path.display()))
}

fn on<DB: DrawingBackend>(root: &Area<DB>, columns: u32, outcomes: &[Outcome]) -> Drawn
where
    DB::ErrorType: 'static,
{
    root.fill(&WHITE)?;
    let workloads = distinct(outcomes, |outcome| outcome.workload.clone());
    let sizes = distinct(outcomes, |outcome| outcome.mb);
    let rows = workloads.len().div_ceil(columns as usize).max(1);
    for (area, workload) in root.split_evenly((rows, columns as usize)).iter().zip(&workloads) {
        if sizes.len() > 1 { curves(area, outcomes, workload)? } else { bars(area, outcomes, workload)? }
    }
    root.present()?;
    Ok(())
}

/// Policies by name, with their colours.
fn policies(outcomes: &[Outcome]) -> Vec<(String, RGBColor)> {
    let names = distinct(outcomes, |outcome| outcome.policy.clone());
    let mut colours = COLOURS.iter().rev().cycle();
    // From the last: ours, which stands before the bound, is always of one colour.
    let mut coloured: Vec<(String, RGBColor)> = names
        .into_iter()
        .rev()
        .map(|name| {
            let colour = if name == "belady" { BOUND } else { *colours.next().unwrap_or(&BLACK) };
            (name, colour)
        })
        .collect();
    coloured.reverse();
    coloured
}

/// From where to where the ratios of a workload go, with some room.
fn range(outcomes: &[Outcome], workload: &str) -> (f64, f64) {
    let ratios = || outcomes.iter().filter(|outcome| outcome.workload == workload).map(|outcome| outcome.hit_percent);
    let (low, high) = (ratios().fold(100.0, f64::min), ratios().fold(0.0, f64::max));
    let room = ((high - low) * 0.2).max(0.5);
    ((low - room).max(0.0), (high + room).min(100.0))
}

fn bars<DB: DrawingBackend>(area: &Area<DB>, outcomes: &[Outcome], workload: &str) -> Drawn
where
    DB::ErrorType: 'static,
{
    let policies = policies(outcomes);
    let (low, high) = range(outcomes, workload);
    let mb = outcomes.first().map_or(0.0, |outcome| outcome.mb);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{workload}, {mb} MiB"), (FONT, TEXT + 4))
        .margin(12)
        .x_label_area_size(96)
        .y_label_area_size(76)
        .build_cartesian_2d(0.0..policies.len() as f64, low..high)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(6)
        .y_desc("hits, percent (not from 0)")
        .label_style((FONT, SMALL))
        .axis_desc_style((FONT, SMALL + 2))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    let above = (FONT, SMALL).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Bottom));
    let below = (FONT, SMALL)
        .into_font()
        .transform(FontTransform::Rotate270)
        .color(&BLACK)
        .pos(Pos::new(HPos::Right, VPos::Center));
    for (at, (policy, colour)) in policies.iter().enumerate() {
        let Some(ratio) = mean(outcomes, workload, mb, policy) else { continue };
        let middle = at as f64 + 0.5;
        chart.draw_series([Rectangle::new([(middle - 0.4, low), (middle + 0.4, ratio)], colour.filled())])?;
        chart.draw_series([Text::new(format!("{ratio:.2}"), (middle, ratio), above.clone())])?;
        let (x, y) = chart.backend_coord(&(middle, low));
        let (left, top) = area.get_base_pixel();
        area.draw(&Text::new(policy.clone(), (x - left, y - top + 6), below.clone()))?;
    }
    Ok(())
}

fn curves<DB: DrawingBackend>(area: &Area<DB>, outcomes: &[Outcome], workload: &str) -> Drawn
where
    DB::ErrorType: 'static,
{
    let sizes = distinct(outcomes, |outcome| outcome.mb);
    let (least, most) = (sizes.iter().copied().fold(f64::MAX, f64::min), sizes.iter().copied().fold(0.0, f64::max));
    let (low, high) = range(outcomes, workload);
    let mut chart = ChartBuilder::on(area)
        .caption(workload, (FONT, TEXT + 4))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d(least.log2()..most.log2(), low..high)?;
    chart
        .configure_mesh()
        .x_labels(8)
        .x_label_formatter(&|log| format!("{:.1}", log.exp2()).trim_end_matches('0').trim_end_matches('.').to_string())
        .y_labels(6)
        .x_desc("MiB (logarithmic)")
        .y_desc("hits, percent (not from 0)")
        .label_style((FONT, SMALL))
        .axis_desc_style((FONT, SMALL + 2))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for (policy, colour) in policies(outcomes) {
        let mut line: Vec<(f64, f64)> =
            sizes.iter().filter_map(|&mb| Some((mb.log2(), mean(outcomes, workload, mb, &policy)?))).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        let width = if policy == "smart" { 4 } else { 2 };
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(width)))?
            .label(policy)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 18, y + 4)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font((FONT, SMALL))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_name_what_they_show() {
        for sizes in [&[64.0][..], &[16.0, 64.0]] {
            let mut outcomes = Vec::new();
            for &mb in sizes {
                for (at, policy) in ["lru", "smart", "belady"].iter().enumerate() {
                    for workload in ["scan", "shift", "loop"] {
                        outcomes.push(Outcome {
                            workload: workload.into(),
                            mb,
                            policy: (*policy).into(),
                            seed: 1,
                            hit_percent: 60.0 + at as f64 + mb / 10.0,
                            note: String::new(),
                        });
                    }
                }
            }
            let name = format!("dolmen-simulate-{}-{}", std::process::id(), sizes.len());
            for extension in ["svg", "png"] {
                let path = std::env::temp_dir().join(format!("{name}.{extension}"));
                draw(&path, &outcomes).expect("a picture");
                let picture = std::fs::read(&path).expect("it is there");
                std::fs::remove_file(&path).expect("it was there");
                if extension == "svg" {
                    let svg = String::from_utf8(picture).expect("text");
                    for text in ["lru", "smart", "belady", "scan", "shift", "loop"] {
                        assert!(svg.contains(text), "{text} in the picture");
                    }
                } else {
                    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 1000);
                }
            }
        }
        assert!(draw(Path::new("x.gif"), &[]).is_err());
    }
}
