package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// The chart's dimensions, in pixels.
const (
	chartWidth              = 860
	panelWidth, panelHeight = 340, 220
	panelTop                = 84 // below a legend of one row
	leftPanel, rightPanel   = 66, 500
	legendRow, captionRow   = 18, 15
	captionTop              = panelTop + panelHeight + 60
	captionChars            = 120 // as many characters of the 11-pixel font as fit below both panels
)

// colors of the series: they are visible on a light and on a dark background.
var colors = []string{"#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444"}

// panel is one half of the chart: one figure against x.
type panel struct {
	left   float64
	title  string
	figure func(Point) float64
	x, y   axis
}

// axis maps values to pixels.
type axis struct {
	log      bool
	from, to float64 // values at its ends
	ticks    []float64
}

func (a axis) share(value float64) float64 {
	if a.log {
		return math.Log(value/a.from) / math.Log(a.to/a.from)
	}
	return (value - a.from) / (a.to - a.from)
}

// Draw writes points as an SVG: rate and p99 against the number that was varied. Each series has a line through the medians
// and a band from the least to the greatest round. The chart brings its own background, light or dark by the reader's
// preference; a viewer without that preference shows the light one.
func Draw(w io.Writer, title string, points []Point) error {
	series := []string{}
	for _, p := range points {
		if !slices.Contains(series, p.Series) {
			series = append(series, p.Series)
		}
	}
	var legend, b strings.Builder
	below := legendRow * (drawLegend(&legend, series) - 1)
	caption := caption(points)
	height := captionTop + below + captionRow*len(caption) - 5
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(title))
	b.WriteString("<style>text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.c{font-size:11px}" +
		".p{fill:#fff}.g{stroke:#8c959f;stroke-opacity:.35}.l{fill:none;stroke-width:2}.b{fill-opacity:.18}" +
		"@media(prefers-color-scheme:dark){text{fill:#d0d7de}.p{fill:#0d1117}.b{fill-opacity:.28}}</style>\n")
	fmt.Fprintf(&b, `<rect class="p" width="%d" height="%d"/>`+"\n", chartWidth, height)
	text(&b, leftPanel, 24, "start", "t", title)
	b.WriteString(legend.String())
	fmt.Fprintf(&b, `<g transform="translate(0 %d)">`+"\n", below)
	for _, one := range []panel{
		{left: leftPanel, title: "checks per second", figure: func(p Point) float64 { return p.PerSecond }},
		{left: rightPanel, title: "p99 of a call, ms", figure: func(p Point) float64 { return float64(p.P99Micros) / 1e3 }},
	} {
		one.scale(points)
		one.grid(&b, xTitle(points[0].X))
		var lines strings.Builder // above all bands
		for i, name := range series {
			one.draw(&b, &lines, colors[i%len(colors)], pointsOf(points, name))
		}
		b.WriteString(lines.String())
	}
	for i, line := range caption {
		text(&b, leftPanel, float64(captionTop+captionRow*i-4), "start", "c", line)
	}
	b.WriteString("</g>\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// drawLegend draws the names of the series, and returns the number of rows that it took.
func drawLegend(b *strings.Builder, series []string) (rows int) {
	at, y := float64(leftPanel), 36
	rows = 1
	for i, name := range series {
		width := 24 + 7.2*float64(len(name))
		if i > 0 && at+width > chartWidth {
			at, y, rows = leftPanel, y+legendRow, rows+1
		}
		fmt.Fprintf(b, `<rect x="%.0f" y="%d" width="18" height="4" fill="%s"/>`+"\n", at, y, colors[i%len(colors)])
		text(b, at+24, float64(y+6), "start", "", name)
		at += width + 24
	}
	return rows
}

func xTitle(x string) string {
	return map[string]string{"callers": "callers (calls under way at once)", "keys": "live keys",
		"batch": "checks in a call", "shards": "shards"}[x]
}

// caption says, in lines, how the points were measured.
func caption(points []Point) []string {
	p := points[0]
	rounds := 0
	for _, other := range points {
		if other.Series == p.Series && other.Value == p.Value {
			rounds++
		}
	}
	values := []string{}
	for _, v := range valuesOf(points) {
		values = append(values, fmt.Sprint(v))
	}
	command := "stint bench"
	if !slices.ContainsFunc(points, func(other Point) bool { return other.Protocol != p.Protocol }) {
		command += " --protocol " + string(p.Protocol)
	}
	if p.Policy != "" {
		command += " --policy " + p.Policy
	}
	for _, flag := range []struct {
		name  string
		value int
	}{{"callers", p.Callers}, {"keys", p.Keys}, {"batch", p.Batch}} {
		if flag.name != p.X && flag.value > 1 {
			command += fmt.Sprintf(" --%s %d", flag.name, flag.value)
		}
	}
	how := fmt.Sprintf("one run of %g s for each point", p.Seconds)
	if rounds > 1 {
		how = fmt.Sprintf("%d rounds of %g s; line: median, band: least to greatest", rounds, p.Seconds)
	}
	return append(wrapped(fmt.Sprintf("%s --curve %s=%s", command, p.X, strings.Join(values, ","))), how)
}

// wrapped breaks words into lines that fit below the panels.
func wrapped(words string) (lines []string) {
	for len(words) > captionChars {
		end := strings.LastIndexByte(words[:captionChars+1], ' ')
		if end <= 0 {
			break // one long word: it is clipped
		}
		lines, words = append(lines, words[:end]), words[end+1:]
	}
	return append(lines, words)
}

func pointsOf(points []Point, series string) (of []Point) {
	for _, p := range points {
		if p.Series == series {
			of = append(of, p)
		}
	}
	return of
}

func valuesOf(points []Point) (values []int) {
	for _, p := range points {
		values = append(values, p.Value)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// scale chooses the axes: x by ratio, y by ratio if it spans more than a factor of 20, else from zero.
func (p *panel) scale(points []Point) {
	values := valuesOf(points)
	first, last := float64(values[0]), float64(values[len(values)-1])
	p.x = axis{log: true, from: first / 1.25, to: last * 1.25}
	for _, v := range values {
		p.x.ticks = append(p.x.ticks, float64(v))
	}
	byFigure := func(a, b Point) int { return cmp.Compare(p.figure(a), p.figure(b)) }
	low, high := p.figure(slices.MinFunc(points, byFigure)), p.figure(slices.MaxFunc(points, byFigure))
	low, high = max(low, high/1e6, 1e-3), max(high, 1e-3)
	if high/low > 20 {
		p.y = ratioAxis(low, high)
		return
	}
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for high/step < 4 {
		step /= 2
	}
	p.y = axis{to: math.Ceil(high/step) * step}
	for v := 0.0; v <= p.y.to+step/2; v += step {
		p.y.ticks = append(p.y.ticks, v)
	}
}

// ratioAxis goes from a tick to a tick of 1, 2 or 5 times a power of ten.
func ratioAxis(low, high float64) axis {
	a := axis{log: true}
	for decade := math.Pow(10, math.Floor(math.Log10(low))); ; decade *= 10 {
		for _, step := range []float64{1, 2, 5} {
			tick := decade * step
			if tick <= low {
				a.ticks = a.ticks[:0] // the axis begins at a later tick
			}
			a.ticks = append(a.ticks, tick)
			if tick >= high {
				a.from, a.to = a.ticks[0], tick
				return a
			}
		}
	}
}

func (p *panel) px(value float64) float64 { return p.left + panelWidth*p.x.share(value) }
func (p *panel) py(value float64) float64 { return panelTop + panelHeight*(1-p.y.share(value)) }

func (p *panel) grid(b *strings.Builder, xTitle string) {
	text(b, p.left, panelTop-14, "start", "", p.title)
	for _, v := range p.y.ticks {
		y := p.py(v)
		fmt.Fprintf(b, `<path class="g" d="M%.1f %.1fh%d"/>`+"\n", p.left, y, panelWidth)
		text(b, p.left-6, y+4, "end", "", short(v))
	}
	room := math.Inf(-1) // where the last label ends
	for _, v := range p.x.ticks {
		x := p.px(v)
		fmt.Fprintf(b, `<path class="g" d="M%.1f %dv5"/>`+"\n", x, panelTop+panelHeight)
		if half := 3.6 * float64(len(short(v))); x-half > room {
			text(b, x, panelTop+panelHeight+19, "middle", "", short(v))
			room = x + half + 4
		}
	}
	text(b, p.left+panelWidth/2, panelTop+panelHeight+38, "middle", "", xTitle)
}

// draw draws a series: its band, its line, and a dot at each value.
func (p *panel) draw(bands, lines *strings.Builder, color string, points []Point) {
	var above, below, middle []string
	for _, value := range valuesOf(points) {
		var figures []float64
		for _, point := range points {
			if point.Value == value {
				figures = append(figures, max(p.figure(point), p.y.from))
			}
		}
		s, x := spreadOf(figures), p.px(float64(value))
		above = append(above, fmt.Sprintf("%.1f %.1f", x, p.py(s.Max)))
		below = append(below, fmt.Sprintf("%.1f %.1f", x, p.py(s.Min)))
		middle = append(middle, fmt.Sprintf("%.1f %.1f", x, p.py(s.Median)))
	}
	slices.Reverse(below)
	fmt.Fprintf(bands, `<path class="b" fill="%s" d="M%sZ"/>`+"\n", color, strings.Join(append(above, below...), "L"))
	fmt.Fprintf(lines, `<path class="l" stroke="%s" d="M%s"/>`+"\n", color, strings.Join(middle, "L"))
	for _, at := range middle {
		x, y, _ := strings.Cut(at, " ")
		fmt.Fprintf(lines, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", x, y, color)
	}
}

// short formats a number in short form: 2,000,000 is 2 M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%g M", math.Round(v/1e4)/100)
	case v >= 1e4:
		return fmt.Sprintf("%g k", math.Round(v/10)/100)
	}
	return fmt.Sprintf("%g", math.Round(v*1e4)/1e4)
}

func text(b *strings.Builder, x, y float64, anchor, class, words string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, class, escape(words))
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
