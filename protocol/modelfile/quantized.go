package modelfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Quantization says how a checkpoint in a Hugging Face directory packs its
// matrices: what config.json's quantization_config holds. Weights puts the parts
// of each together to one Tensor, whose Decode gives
//
//	w[o, i] = (q[o, i] − z[o, g(i)]) · s[o, g(i)]
//
// so that activations stay as they are, whatever the checkpoint wants of them.
//
//	awq                 qweight, qzeros, scales: input-major, nibbles in AWQ's order
//	gptq                qweight, qzeros, scales, g_idx: input-major; zeros less 1
//	compressed-tensors  weight_packed, weight_scale, …: pack-quantized
//	                    weight (int8), weight_scale: int-quantized
//
// Source: AutoAWQ, awq/utils/packing_utils.py; AutoGPTQ, nn_modules/qlinear;
// compressed-tensors, compressors/pack_quantized.
type Quantization struct {
	Method    string // "awq", "gptq" or "compressed-tensors"
	Format    string // of compressed-tensors: "pack-quantized" or "int-quantized"
	Bits      int    // 4 or 8
	GroupSize int    // inputs that share a scale; 0: all
	zeroShift int    // is added to stored zero points, which wrap
}

// quantization reads quantization_config; nil if there is none. What we can't
// do stays, and is refused.
func (o *object) quantization() *Quantization {
	const key = "quantization_config"
	p := o.object(key)
	if p == nil {
		return nil
	}
	q := &Quantization{Method: p.string("quant_method", "")}
	switch q.Method {
	case "awq":
		p.awq(q)
	case "gptq":
		p.gptq(q)
	case "compressed-tensors":
		p.compressedTensors(q)
	default:
		p.refuse("quant_method", "awq, gptq and compressed-tensors are")
	}
	o.accept(key)
	return q
}

// only refuses a key whose value is none of the JSON texts; absence is right.
func (o *object) only(key string, texts ...string) {
	if o.has(key) && !o.equals(key, texts...) {
		why := "leave it out"
		if len(texts) > 0 {
			why = "there is " + strings.Join(texts, ", ")
		}
		o.refuse(key, why)
	}
}

func (o *object) groupSize(q *Quantization) {
	switch q.GroupSize = o.int("group_size", -1); {
	case q.GroupSize == -1:
		q.GroupSize = 0
	case q.GroupSize < 1 || q.GroupSize > 1<<20:
		o.invalid("group_size", fmt.Sprintf("-1, or between 1 and %d", 1<<20))
	}
}

func (o *object) awq(q *Quantization) {
	q.Bits = o.int("bits", 4)
	o.only("bits", "4")
	o.only("version", `"gemm"`, `"GEMM"`)
	o.groupSize(q)
}

func (o *object) gptq(q *Quantization) {
	q.Bits = o.int("bits", 4)
	o.only("bits", "4", "8")
	o.only("checkpoint_format", `"gptq"`, `"gptq_v2"`)
	o.only("dynamic", "{}") // other bits for some layers
	o.only("pack_dtype", `"int32"`)
	o.groupSize(q)
	if !o.equals("checkpoint_format", `"gptq_v2"`) {
		q.zeroShift = 1
	}
}

func (o *object) compressedTensors(q *Quantization) {
	q.Format = o.string("format", "")
	o.only("format", `"pack-quantized"`, `"int-quantized"`)
	o.only("kv_cache_scheme")
	o.only("transform_config", "{}") // rotations around the matrices
	o.only("sparsity_config", "{}", `{"format":"dense"}`)
	groups := o.object("config_groups")
	if groups == nil || len(groups.keys) != 1 {
		o.refuse("config_groups", "one group is")
		return
	}
	for name := range groups.keys {
		weights := groups.object(name)
		if weights != nil {
			weights = weights.object("weights")
		}
		if weights == nil {
			groups.refuse(name, "its weights must be quantized")
			return
		}
		q.Bits = weights.int("num_bits", 8)
		weights.only("type", `"int"`)
		weights.only("strategy", `"tensor"`, `"channel"`, `"group"`)
		if q.Format == "int-quantized" {
			weights.only("num_bits", "8")
		} else {
			weights.only("num_bits", "4", "8")
		}
		if weights.equals("strategy", `"group"`) {
			weights.groupSize(q)
		}
	}
}

// packed are the parts of one quantized matrix, found by what follows its name.
type packed struct {
	name  string
	parts map[string]Tensor
}

// packedParts lists what each method adds to a matrix's name. The last ones
// concern activations alone.
var packedParts = map[string][]string{
	"awq":                {"qweight", "qzeros", "scales"},
	"gptq":               {"qweight", "qzeros", "scales", "g_idx"},
	"compressed-tensors": {"weight_packed", "weight", "weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx", "input_scale", "input_zero_point"},
}

// assemble replaces the parts of quantized matrices by the matrices.
func (w *Weights) assemble(q *Quantization) error {
	found := map[string]*packed{}
	for _, t := range w.tensors {
		dot := strings.LastIndexByte(t.Name, '.')
		if dot < 0 || !slices.Contains(packedParts[q.Method], t.Name[dot+1:]) {
			continue
		}
		name := t.Name[:dot]
		if found[name] == nil {
			found[name] = &packed{name: name, parts: map[string]Tensor{}}
		}
		found[name].parts[t.Name[dot+1:]] = t
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		p := found[name]
		if plain := p.parts["weight"]; len(p.parts) == 1 && plain.Plain() {
			continue // not quantized
		}
		t, err := p.tensor(q)
		if err != nil {
			return err
		}
		for part := range p.parts {
			delete(w.tensors, name+"."+part)
		}
		w.tensors[t.Name] = t
	}
	return nil
}

func (p *packed) has(part string) bool { _, ok := p.parts[part]; return ok }

// matrix is a quantized matrix [out, in] in neutral words.
type matrix struct {
	out, in, group int
	row            func(dst []float32, o int) // the stored integers of an output
	zero           func(o, g int) int         // nil is 0
	scale          []float32                  // [groups, out]; outMajor: [out, groups]; perTensor: one
	outMajor       bool
	perTensor      bool
	index          []int32 // [in] group of each input; nil: i/group
}

func (m *matrix) groups() int { return (m.in + m.group - 1) / m.group }

// tensor puts the parts together.
func (p *packed) tensor(q *Quantization) (Tensor, error) {
	m := matrix{group: q.GroupSize}
	var err error
	var main string
	switch {
	case q.Method == "awq":
		main, err = "qweight", p.awq(&m)
	case q.Method == "gptq":
		main, err = "qweight", p.gptq(&m, q)
	case q.Format == "int-quantized":
		main, err = "weight", p.int8(&m)
	default:
		main, err = "weight_packed", p.packQuantized(&m, q)
	}
	if err != nil {
		return Tensor{}, err
	}
	first := p.parts[main]
	t := Tensor{Name: p.name + ".weight", File: first.File, DType: first.DType, Shape: []int{m.out, m.in}, origin: first.Name, decode: m.decode}
	for _, name := range slices.Sorted(maps.Keys(p.parts)) {
		t.parts = append(t.parts, p.parts[name].Data)
	}
	return t, nil
}

// part looks one up, and checks its type and shape.
func (p *packed) part(name string, types []DType, shape ...int) (Tensor, error) {
	t, ok := p.parts[name]
	if !ok {
		return t, fmt.Errorf("weights: tensor %q %w; other parts of this quantized matrix are there", p.name+"."+name, ErrNotFound)
	}
	match := slices.Contains(types, t.DType) && len(t.Shape) == len(shape) && len(t.Data) > 0
	for i := range shape {
		match = match && (shape[i] < 0 || t.Shape[i] == shape[i])
	}
	if !match {
		return t, fmt.Errorf("%s: %w: tensor %q is %s%v, where %v%v is due (-1: any, but 0)", t.File, ErrInvalid, t.Name, t.DType, t.Shape, types, shape)
	}
	return t, nil
}

var (
	int32s  = []DType{"I32"}
	scalars = []DType{F16, BF16, F32}
)

// inputMajor reads what AWQ and GPTQ share: scales [groups, out], and zeros
// [groups, out/perWord].
func (p *packed) inputMajor(m *matrix, perWord int) (zeros Tensor, err error) {
	m.group = cmp.Or(m.group, m.in)
	scales, err := p.part("scales", scalars, m.groups(), m.out)
	if err != nil {
		return zeros, err
	}
	m.scale = scales.floats()
	return p.part("qzeros", int32s, m.groups(), m.out/perWord)
}

// awqPlace is the nibble of a word that holds each of 8 outputs.
var awqPlace = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// awq: qweight [in, out/8].
func (p *packed) awq(m *matrix) error {
	w, err := p.part("qweight", int32s, -1, -1)
	if err != nil {
		return err
	}
	words := w.Shape[1]
	m.in, m.out = w.Shape[0], words*8
	zeros, err := p.inputMajor(m, 8)
	m.row = func(dst []float32, o int) {
		shift := 4 * awqPlace[o%8]
		for i := range dst {
			dst[i] = float32(u32(w.Data[4*(i*words+o/8):]) >> shift & 15)
		}
	}
	m.zero = func(o, g int) int { return field(zeros.Data, g*words+o/8, awqPlace[o%8], 4) }
	return err
}

// gptq: qweight [in/perWord, out]. g_idx says which group an input belongs to
// where they were quantized in another order.
func (p *packed) gptq(m *matrix, q *Quantization) error {
	w, err := p.part("qweight", int32s, -1, -1)
	if err != nil {
		return err
	}
	perWord := 32 / q.Bits
	m.in, m.out = w.Shape[0]*perWord, w.Shape[1]
	if m.out%perWord != 0 {
		return fmt.Errorf("%s: %w: tensor %q has %d outputs, no multiple of %d", w.File, ErrInvalid, w.Name, m.out, perWord)
	}
	zeros, err := p.inputMajor(m, perWord)
	if err != nil {
		return err
	}
	words := m.out / perWord
	m.row = func(dst []float32, o int) { unpack(dst, w.Data[4*o:], m.out, q.Bits) }
	m.zero = func(o, g int) int {
		return (field(zeros.Data, g*words+o/perWord, o%perWord, q.Bits) + q.zeroShift) & (1<<q.Bits - 1)
	}
	if p.has("g_idx") {
		return p.groups(m, "g_idx")
	}
	return nil
}

// groups reads the group of each input.
func (p *packed) groups(m *matrix, name string) error {
	t, err := p.part(name, int32s, m.in)
	if err != nil {
		return err
	}
	index, sorted := make([]int32, m.in), true
	for i := range index {
		index[i] = int32(u32(t.Data[4*i:]))
		sorted = sorted && int(index[i]) == i/m.group
		if g := index[i]; g < 0 || int(g) >= m.groups() {
			return fmt.Errorf("%s: %w: tensor %q has group %d at %d; there are %d", t.File, ErrInvalid, t.Name, g, i, m.groups())
		}
	}
	if !sorted {
		m.index = index
	}
	return nil
}

// int8: weight [out, in], weight_scale of each output or of all.
func (p *packed) int8(m *matrix) error {
	w, err := p.part("weight", []DType{"I8"}, -1, -1)
	if err != nil {
		return err
	}
	m.out, m.in = w.Shape[0], w.Shape[1]
	m.row = func(dst []float32, o int) {
		for i, b := range w.Data[o*m.in : (o+1)*m.in] {
			dst[i] = float32(int8(b))
		}
	}
	if p.has("weight_zero_point") {
		return fmt.Errorf("%s: tensor %q: zero points of int8 weights are %w", w.File, p.name+".weight_zero_point", ErrUnsupported)
	}
	return p.outputMajor(m)
}

// outputMajor reads compressed-tensors' scales: [out, groups], [out, 1] or [1].
func (p *packed) outputMajor(m *matrix) error {
	m.group = cmp.Or(m.group, m.in)
	m.outMajor = true
	shape := []int{m.out, m.groups()}
	if t := p.parts["weight_scale"]; len(t.Shape) <= 1 {
		m.perTensor = true
		shape = slices.Repeat([]int{1}, len(t.Shape))
	}
	scale, err := p.part("weight_scale", scalars, shape...)
	if err == nil {
		m.scale = scale.floats()
	}
	return err
}

// packQuantized: weight_packed [out, in/perWord rounded up]; zero points
// [out/perWord rounded up, groups], else all in the middle of the range.
func (p *packed) packQuantized(m *matrix, q *Quantization) error {
	perWord, middle := 32/q.Bits, 1<<(q.Bits-1)
	w, err := p.part("weight_packed", int32s, -1, -1)
	if err != nil {
		return err
	}
	shape, err := p.part("weight_shape", []DType{"I64", "I32"}, 2)
	if err != nil {
		return err
	}
	dims := shape.ints()
	m.out, m.in = int(dims[0]), int(dims[1])
	if dims[0] != int64(w.Shape[0]) || dims[1] < 1 || (dims[1]-1)/int64(perWord)+1 != int64(w.Shape[1]) {
		return fmt.Errorf("%s: %w: tensor %q is %v, but %q says %v of %d bits", w.File, ErrInvalid, w.Name, w.Shape, shape.Name, dims, q.Bits)
	}
	words := w.Shape[1]
	m.row = func(dst []float32, o int) { unpack(dst, w.Data[4*o*words:], 1, q.Bits) }
	m.zero = func(int, int) int { return middle }
	if err := p.outputMajor(m); err != nil {
		return err
	}
	if p.has("weight_zero_point") {
		groups := m.groups()
		zeros, err := p.part("weight_zero_point", int32s, (m.out+perWord-1)/perWord, groups)
		if err != nil {
			return err
		}
		m.zero = func(o, g int) int { return field(zeros.Data, o/perWord*groups+g, o%perWord, q.Bits) }
	}
	if p.has("weight_g_idx") {
		return p.groups(m, "weight_g_idx")
	}
	return nil
}

// field is one of the unsigned integers that a little-endian int32 packs.
func field(data []byte, word, place, bits int) int {
	return int(u32(data[4*word:]) >> (place * bits) & (1<<bits - 1))
}

// ints returns the values of an I64 or I32 tensor.
func (t *Tensor) ints() []int64 {
	var list []int64
	for data := t.Data; len(data) > 0; {
		if t.DType == "I32" {
			list, data = append(list, int64(int32(u32(data)))), data[4:]
		} else {
			list, data = append(list, int64(binary.LittleEndian.Uint64(data))), data[8:]
		}
	}
	return list
}

// unpack sets dst to the integers of words that lie stride words apart.
func unpack(dst []float32, data []byte, stride, bits int) {
	mask, word := uint32(1)<<bits-1, uint32(0)
	at, left := 0, 0
	for i := range dst {
		if left == 0 {
			word, left = u32(data[at:]), 32
			at += 4 * stride
		}
		dst[i] = float32(word & mask)
		word >>= bits
		left -= bits
	}
}

// decode sets dst to whole rows. The difference of integers is exact, so that
// only the product is rounded.
func (m *matrix) decode(dst []float32, row int) {
	zeros, scales := make([]float32, m.groups()), make([]float32, m.groups())
	for o := row; len(dst) > 0; o, dst = o+1, dst[m.in:] {
		values := dst[:m.in]
		m.row(values, o)
		for g := range zeros {
			zeros[g], scales[g] = m.at(o, g)
		}
		for i, g := range m.index {
			values[i] = (values[i] - zeros[g]) * scales[g]
		}
		if m.index != nil {
			continue
		}
		for g, scale := range scales {
			zero, part := zeros[g], values[g*m.group:min((g+1)*m.group, m.in)]
			for i, q := range part {
				part[i] = (q - zero) * scale
			}
		}
	}
}

// at returns the zero point and scale of output o and group g.
func (m *matrix) at(o, g int) (zero, scale float32) {
	if m.zero != nil {
		zero = float32(m.zero(o, g))
	}
	switch {
	case m.perTensor:
		return zero, m.scale[0]
	case m.outMajor:
		return zero, m.scale[o*m.groups()+g]
	}
	return zero, m.scale[g*m.out+o]
}
