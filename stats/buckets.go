package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// BucketFamily is a set of bucket bounds that several histograms share.
type BucketFamily int

const (
	FamilyNone BucketFamily = iota
	FamilyTTFT
	FamilyITL
	FamilyLatency
	FamilyLength // follows max_model_len
	FamilyN
	FamilyPreemptions
	FamilyTokensPerStep
	FamilyResidency
	FamilyStepDuration
	FamilyHandling

	numFamilies
)

// family is a family's name in --custom-histogram-buckets, its bounds, and
// what "fine" puts before the lowest of them; nil: it is fine as it is.
type family struct {
	name   string
	bounds []float64
	fine   []float64
}

// The first eight are vLLM's. Source: vllm/v1/metrics/buckets.py.
var families = [numFamilies]family{
	FamilyTTFT: {"time_to_first_token", []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}, []float64{0.0001, 0.00025, 0.0005}},
	FamilyITL: {"inter_token_latency", []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80}, []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.0075}},
	FamilyLatency: {"request_latency", []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
		120, 240, 480, 960, 1920, 7680}, []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2}},
	FamilyLength:        {name: "request_tokens"},
	FamilyN:             {name: "request_params_n", bounds: []float64{1, 2, 5, 10, 20}},
	FamilyPreemptions:   {name: "request_num_preemptions", bounds: []float64{1, 2, 3, 4, 5, 10, 20}},
	FamilyTokensPerStep: {name: "iteration_tokens", bounds: []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}},
	FamilyResidency: {name: "kv_cache_residency", bounds: []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
		1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800}},
	// Closer than vLLM's latencies, where a median of 11 ms reads as 17.
	FamilyStepDuration: {name: "step_duration", bounds: []float64{0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01,
		0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30}},
	FamilyHandling: {name: "handling_time", bounds: []float64{0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001,
		0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}},
}

// Buckets returns the upper bounds of f. Lengths are 1, 2, 5 times powers of
// ten up to and including maxModelLen; the limit itself is not added.
func (f BucketFamily) Buckets(maxModelLen int) []float64 {
	if f != FamilyLength {
		return slices.Clone(families[f].bounds)
	}
	var bounds []float64
	for power := 1; ; power *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*power > max(maxModelLen, 1) {
				return bounds
			}
			bounds = append(bounds, float64(m*power))
		}
	}
}

// BoundText writes a bound as Python's client does in the le label: 1.0, 0.25,
// 1e+06, +Inf. Queries name buckets by it.
func BoundText(bound float64) string {
	if bound == math.Trunc(bound) && math.Abs(bound) < 1e6 {
		return strconv.FormatFloat(bound, 'f', 1, 64)
	}
	if math.IsInf(bound, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(bound, 'g', -1, 64)
}

// CustomBuckets replaces the bounds of whole families.
type CustomBuckets map[BucketFamily][]float64

// Buckets returns f's own bounds where c has none.
func (c CustomBuckets) Buckets(f BucketFamily, maxModelLen int) []float64 {
	if bounds, ok := c[f]; ok {
		return slices.Clone(bounds)
	}
	return f.Buckets(maxModelLen)
}

// ParseBuckets reads --custom-histogram-buckets: by family either a list of
// bounds, above 0 and rising, or "fine", which adds bounds below the lowest
// default one. It reports everything that is wrong.
func ParseBuckets(byName map[string]any) (CustomBuckets, error) {
	custom := CustomBuckets{}
	var errs []error
	for name, value := range byName {
		f := BucketFamily(slices.IndexFunc(families[:], func(f family) bool { return f.name == name && name != "" }))
		if f < 0 {
			errs = append(errs, fmt.Errorf("there is no bucket family %q; there are %s", name, strings.Join(familyNames(), ", ")))
			continue
		}
		bounds, err := parseBounds(f, value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		custom[f] = bounds
	}
	return custom, errors.Join(errs...)
}

func parseBounds(f BucketFamily, value any) ([]float64, error) {
	if value == "fine" {
		if families[f].fine == nil {
			return nil, errors.New(`has no "fine" bounds; give a list`)
		}
		return append(slices.Clone(families[f].fine), families[f].bounds...), nil
	}
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf(`is %v, want a list of bounds or "fine"`, value)
	}
	var bounds []float64
	for _, v := range list {
		bound, ok := v.(float64)
		switch {
		case !ok || bound <= 0 || math.IsInf(bound, 1):
			return nil, fmt.Errorf("bound %v is not a number above 0", v)
		case len(bounds) > 0 && bound <= bounds[len(bounds)-1]:
			return nil, fmt.Errorf("bound %v follows %v, want them to rise", bound, bounds[len(bounds)-1])
		}
		bounds = append(bounds, bound)
	}
	return bounds, nil
}

func familyNames() (names []string) {
	for _, f := range families[FamilyTTFT:] {
		names = append(names, f.name)
	}
	return names
}
