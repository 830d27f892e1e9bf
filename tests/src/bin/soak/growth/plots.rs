//! The plots of a growth run: one SVG file per quantity with a chart per unit, on logarithmic axes.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use plotters::prelude::*;

/// The size of one chart, in pixels.
const CHART: (u32, u32) = (900, 320);

const COLOURS: [RGBColor; 3] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(64, 130, 60),
];

/// The lines of one quantity, each with a name that ends in `, UNIT`.
pub(super) struct Plot {
    pub(super) quantity: &'static str,
    lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Plot {
    pub(super) fn new(quantity: &'static str) -> Self {
        let lines = Vec::new();
        Self { quantity, lines }
    }

    /// Prints a point, and adds it to the line of its figure.
    pub(super) fn add(&mut self, amount: u64, figure: &str, value: f64) {
        let quantity = self.quantity;
        println!("{quantity:<12} {amount:>8}  {figure:<26} {value:>12.2}");
        let point = (amount as f64, value);
        match self.lines.iter_mut().find(|(name, _)| name == figure) {
            Some((_, points)) => points.push(point),
            None => self.lines.push((figure.to_owned(), vec![point])),
        }
    }

    /// All points as rows of a CSV file.
    pub(super) fn rows(&self) -> String {
        let mut rows = String::new();
        for (name, points) in &self.lines {
            for (amount, value) in points {
                let _ = writeln!(rows, "{},{amount},{name:?},{value}", self.quantity);
            }
        }
        rows
    }

    /// The units in the order of their first lines.
    fn units(&self) -> Vec<&str> {
        let mut units: Vec<&str> = Vec::new();
        for (name, _) in &self.lines {
            let unit = unit_of(name);
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        units
    }

    pub(super) fn draw(&self, file: &Path) -> Result<(), Box<dyn Error>> {
        let units = self.units();
        let size = (CHART.0, CHART.1 * units.len() as u32);
        let area = SVGBackend::new(file, size).into_drawing_area();
        area.fill(&WHITE)?;
        let charts = area.split_evenly((units.len(), 1));
        for (unit, chart) in units.into_iter().zip(charts) {
            self.draw_chart(unit, &chart)?;
        }
        area.present()?;
        Ok(())
    }

    fn draw_chart(
        &self,
        unit: &str,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), Box<dyn Error>> {
        let of_unit = self.lines.iter().filter(|(name, _)| unit_of(name) == unit);
        let lines: Vec<&(String, Vec<(f64, f64)>)> = of_unit.collect();
        let points = || lines.iter().flat_map(|(_, points)| points);
        let least = |at: fn(&(f64, f64)) -> f64| points().map(at).fold(f64::MAX, f64::min);
        let most = |at: fn(&(f64, f64)) -> f64| points().map(at).fold(f64::MIN, f64::max);
        let across = least(|point| point.0)..most(|point| point.0);
        let up = least(|point| point.1) / 2.0..most(|point| point.1) * 2.0;
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(80)
            .build_cartesian_2d(across.log_scale(), up.log_scale())?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc(self.quantity)
            .y_desc(unit)
            .x_label_formatter(&f64::to_string)
            .y_label_formatter(&f64::to_string)
            .draw()?;
        for ((name, points), colour) in lines.into_iter().zip(COLOURS) {
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart
                .draw_series(line.point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        Ok(())
    }
}

fn unit_of(name: &str) -> &str {
    name.rsplit_once(", ").map_or(name, |(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_chart_per_unit_with_a_line_per_figure() {
        let mut plot = Plot::new("nodes");
        for (amount, rate) in [(1, 900.0), (3, 500.0)] {
            plot.add(amount, "strict values, 1/s", rate);
            plot.add(amount, "single IDs, 1/s", rate * 9.0);
            plot.add(amount, "strict values, p99 in ms", 1e3 / rate);
        }
        assert_eq!(plot.units(), ["1/s", "p99 in ms"]);
        assert!(
            plot.rows()
                .starts_with("nodes,1,\"strict values, 1/s\",900\n")
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nodes.svg");
        plot.draw(&file).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        for shown in [
            "strict values, 1/s",
            "single IDs, 1/s",
            "p99 in ms",
            "nodes",
        ] {
            assert!(text.contains(shown), "{shown}");
        }
    }
}
