package bench

import (
	"encoding/xml"
	"strings"
	"testing"
)

// For any measurement, all text of a chart lies within the chart, and its lines lie above all bands.
func TestAChartSaysNothingBeyondItsEdge(t *testing.T) {
	var points []Point
	for _, series := range []string{"one node, the Redis protocol", "one node, gRPC", "three nodes, the Redis protocol",
		"three nodes, gRPC on a port of its own", "three nodes, the Go client"} {
		for value := 1; value <= 4096; value *= 2 {
			for round := range 3 {
				points = append(points, Point{Series: series, X: "callers", Value: value, Protocol: GRPC, Policy: "downloads-of-one-tenant", Keys: 100_000,
					Batch: 100, PerSecond: float64(1000 * (round + value)), P99Micros: int64(900 * value)})
			}
		}
	}
	var chart strings.Builder
	if err := Draw(&chart, "Rate", points); err != nil {
		t.Fatal(err)
	}
	type text struct {
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Anchor string  `xml:"text-anchor,attr"`
		Words  string  `xml:",chardata"`
	}
	var drawn struct {
		Width  float64 `xml:"width,attr"`
		Height float64 `xml:"height,attr"`
		Texts  []text  `xml:"text"`
		Moved  struct {
			Transform string `xml:"transform,attr"`
			Texts     []text `xml:"text"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal([]byte(chart.String()), &drawn); err != nil {
		t.Fatal(err)
	}
	if drawn.Moved.Transform != "translate(0 18)" {
		t.Errorf("%q below a legend of two rows", drawn.Moved.Transform)
	}
	found := 0
	for _, one := range append(drawn.Texts, drawn.Moved.Texts...) {
		const pixels = 6.6 // of a letter in a wide font
		if one.Anchor == "start" && one.X+pixels*float64(len(one.Words)) > drawn.Width || one.Y+18 > drawn.Height {
			t.Errorf("beyond the edge of %g x %g: %+v", drawn.Width, drawn.Height, one)
		}
		if strings.HasPrefix(one.Words, "stint bench") || strings.HasPrefix(one.Words, "3 rounds of") {
			found++
		}
	}
	if found != 2 {
		t.Errorf("the caption is not whole: %s", chart.String())
	}
	for panel := range strings.SplitSeq(chart.String(), "p99 of a call") {
		if strings.LastIndex(panel, `class="b"`) > strings.Index(panel, `class="l"`) {
			t.Error("a band covers a line")
		}
	}
}
