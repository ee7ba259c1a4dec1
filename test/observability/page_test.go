package observability

import (
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"govllm/frontend/dashboard"
	"govllm/test/load/bench"
	"govllm/test/load/system"
)

// TestPage opens /dashboard in a real browser, on a desk and on a phone, light
// and dark, while requests run. The pictures stay in $GOVLLM_SCREENSHOTS if
// that is set.
func TestPage(t *testing.T) {
	extra(t)
	programs(t, "chromium")
	s := start(t, system.Options{Engines: 2, Frontend: []string{"--disable-uvicorn-access-log"},
		Core: []string{"--cpu-threads", "1", "--block-size", "16", "--max-num-seqs", "4", "--num-gpu-blocks-override", "40"}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // goes on while the pictures are taken
		c := bench.Default()
		c.BaseURL, c.NumPrompts, c.RequestRate, c.InputLen, c.OutputLen, c.IgnoreEOS = s.URL, 100_000, 4, 100, 200, true
		_, err := bench.Run(ctx, c)
		ended <- err
	}()
	defer func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the load ended with %v", err)
		}
	}()
	eventually(t, "the page has points with tokens", func() bool {
		d := pageData(t, s)
		return len(d.Times) >= 2 && len(d.Series) == 3 && anyAbove(d.Series[0].Columns["generated_tokens"], 0)
	})
	dir := os.Getenv("GOVLLM_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	for _, view := range []struct {
		name, size    string
		width, height int
		dark          bool
	}{
		{"desk-light", "1280,1000", 1280, 1000, false},
		{"desk-dark", "1280,1000", 1280, 1000, true},
		{"phone-light", "500,1000", 500, 1000, false}, // the narrowest window that headless Chromium opens
		{"phone-dark", "500,1000", 500, 1000, true},
	} {
		scheme := map[bool]string{true: "0", false: "1"}[view.dark]
		picture := filepath.Join(dir, "dashboard-"+view.name+".png")
		args := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(),
			"--blink-settings=preferredColorScheme=" + scheme, "--window-size=" + view.size, "--virtual-time-budget=5000"}
		chromium := func(more ...string) string {
			out, err := exec.CommandContext(t.Context(), "chromium", append(append(args, more...), s.URL+"/dashboard")...).Output()
			if err != nil {
				t.Fatalf("chromium: %v", err)
			}
			return string(out)
		}
		dom := chromium("--dump-dom")
		checkDOM(t, view.name, dom)
		chromium("--screenshot=" + picture)
		checkPicture(t, picture, view.width, view.height, view.dark)
	}
}

// checkDOM looks at what the script made of the page.
func checkDOM(t *testing.T, view, dom string) {
	t.Helper()
	for _, want := range []string{`<h1 id="model">builtin</h1>`, `>live</span>`, `<option value="1">1</option>`} {
		if !strings.Contains(dom, want) {
			t.Errorf("%s: the page lacks %s", view, want)
		}
	}
	for _, c := range []struct {
		what    string
		pattern string
		least   int
	}{
		{"tiles", `class="tile"`, 8},
		{"charts", `class="chart"`, 9},
		{"lines", `<path d="M[0-9]`, 15},
		{"values in legends", `<b>[0-9]`, 15},
	} {
		if n := len(regexp.MustCompile(c.pattern).FindAllString(dom, -1)); n < c.least {
			t.Errorf("%s: %d %s, want at least %d", view, n, c.what, c.least)
		}
	}
	if strings.Contains(dom, "NaN") || strings.Contains(dom, "undefined") {
		t.Errorf("%s: the page shows NaN or undefined", view)
	}
}

// checkPicture wants a page-sized picture of the right brightness with the
// charts' colours in it.
func checkPicture(t *testing.T, path string, width, height int, dark bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if b := img.Bounds(); b.Dx() != width || b.Dy() > height || b.Dy() < height/2 {
		t.Errorf("%s is %v, want %d by up to %d", path, b, width, height)
	}
	colours, bright := map[[3]uint32]bool{}, 0.0
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := img.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, bl >> 8}] = true
			bright += float64(r+g+bl) / 3 / 0xffff
		}
	}
	bright /= float64(b.Dx() * b.Dy())
	if len(colours) < 50 || (bright > 0.5) == dark {
		t.Errorf("%s has %d colours and brightness %.2f, dark %t", path, len(colours), bright, dark)
	}
}

func pageData(t *testing.T, s *system.System) *dashboard.Data {
	t.Helper()
	resp, err := http.Get(s.URL + "/dashboard/data")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := new(dashboard.Data)
	if err := json.NewDecoder(resp.Body).Decode(d); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /dashboard/data: status %d, %v", resp.StatusCode, err)
	}
	return d
}

func anyAbove(values []float64, bound float64) bool {
	for _, v := range values {
		if v > bound {
			return true
		}
	}
	return false
}
