package stats

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a release of vLLM, of which only major and minor count here.
type Version struct{ Major, Minor int }

// ParseVersion reads X.Y or X.Y.Z.
func ParseVersion(s string) (Version, error) {
	parts := strings.Split(s, ".")
	if len(parts) >= 2 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && major >= 0 && minor >= 0 {
			return Version{major, minor}, nil
		}
	}
	return Version{}, fmt.Errorf("%q is not a version; give one such as 0.31", s)
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (v Version) before(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// Deprecation is why a metric is not exported: it was deprecated in one
// release, hidden in a later one, and Use has its value.
type Deprecation struct {
	Hidden Version // the first release without it
	Use    ID
}

// ShownFor says whether m is exported with --show-hidden-metrics-for-version
// v, the zero Version if that was not given: everything is that is not hidden,
// and of the hidden what v still had.
//
// vLLM shows only what the very last release hid, and removes it with the next.
// Routers read these names years later, and to keep them costs a line.
func (m *Metric) ShownFor(v Version) bool {
	return m.Deprecated == nil || v != Version{} && v.before(m.Deprecated.Hidden)
}
