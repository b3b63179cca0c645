package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"image/color"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

type drawCommand struct {
	Points string `arg:"" help:"File with the points of curves, one a line." type:"existingfile"`
	Title  string `help:"Title of the chart. Default: what was varied."`
}

// Run is the command: rate and p99 beside each other, against the number that was varied.
func (c *drawCommand) Run() error {
	points, err := readPoints(c.Points)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Points, err)
	}
	title := cmp.Or(c.Title, "Rate and latency by "+points[0].X)
	plot.DefaultFont.Variant = "Sans"
	rate, err := newPanel(points, title+", checks/s", func(p point) float64 { return p.PerSecond })
	if err != nil {
		return err
	}
	p99, err := newPanel(points, "p99 of a call, ms", func(p point) float64 { return float64(p.P99Micros) / 1e3 })
	if err != nil {
		return err
	}
	canvas := vgsvg.New(10*vg.Inch, 4*vg.Inch)
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter}
	panels := [][]*plot.Plot{{rate, p99}}
	for i, at := range plot.Align(panels, tiles, draw.New(canvas))[0] {
		panels[0][i].Draw(at)
	}
	_, err = canvas.WriteTo(os.Stdout)
	return err
}

// readPoints reads points, one JSON object per line.
func readPoints(name string) (points []point, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var p point
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(points)+1, err)
		}
		if points = append(points, p); p.X != points[0].X || p.Value < 1 {
			return nil, fmt.Errorf("a chart is of one number: %s, but there are points of %s", points[0].X, p.X)
		}
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("there are no points")
	}
	return points, nil
}

// newPanel draws one figure: for each series a line through the medians, and a band from the least to the greatest
// round.
func newPanel(points []point, title string, figure func(point) float64) (*plot.Plot, error) {
	panel := plot.New()
	panel.Title.Text, panel.X.Label.Text = title, points[0].X+" ("+points[0].How+"; medians and ranges)"
	panel.X.Label.TextStyle.Font.Size = vg.Points(8)
	panel.X.Scale, panel.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticksOf(points))
	panel.Legend.Top = true
	all := map[string]map[int][]float64{} // by series and value
	var names []string
	for _, p := range points {
		if all[p.Series] == nil {
			all[p.Series] = map[int][]float64{}
			names = append(names, p.Series)
		}
		all[p.Series][p.Value] = append(all[p.Series][p.Value], max(figure(p), 1e-3))
	}
	for i, name := range names {
		var middle, upper, lower plotter.XYs
		for _, tick := range ticksOf(points) {
			if rounds := all[name][int(tick.Value)]; rounds != nil {
				s := spreadOf(rounds)
				middle = append(middle, plotter.XY{X: tick.Value, Y: s.median})
				upper = append(upper, plotter.XY{X: tick.Value, Y: s.most})
				lower = append(lower, plotter.XY{X: tick.Value, Y: s.least})
			}
		}
		slices.Reverse(lower)
		band, err := plotter.NewPolygon(append(upper, lower...))
		if err != nil {
			return nil, err
		}
		line, dots, err := plotter.NewLinePoints(middle)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		r, g, b, _ := line.Color.RGBA()
		band.Color, band.LineStyle.Width = color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 50}, 0
		panel.Add(band, line, dots)
		panel.Legend.Add(name, line, dots)
	}
	if panel.Y.Max > 20*panel.Y.Min {
		panel.Y.Scale, panel.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		panel.Y.Min = 0
	}
	return panel, nil
}

// ticksOf are the values of the points, in order.
func ticksOf(points []point) (ticks []plot.Tick) {
	var values []int
	for _, p := range points {
		values = append(values, p.Value)
	}
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		ticks = append(ticks, plot.Tick{Value: float64(v), Label: strconv.Itoa(v)})
	}
	return ticks
}
