package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// textDecoder turns the tokens of a vocabulary that is not byte-level into
// text. Tokens go through these steps, each of which may be absent:
//
//	before        changes each token on its own
//	byteFallback  makes characters of runs of byte tokens
//	after         changes each token on its own, and each character of a run
//	lead          takes characters from the beginning of the text
//
// That is what decoders in the order that files have them come to: see
// buildDecoder.
type textDecoder struct {
	before       []tokenDecoder
	byteFallback bool
	after        []tokenDecoder
	lead         leadingStrip
}

// leadingStrip takes up to count times content from the beginning of a text.
type leadingStrip struct {
	content rune
	count   int
}

// tokenDecoder changes a token; first says that no token is before it.
type tokenDecoder interface {
	decode(token string, first bool) string
}

// decode is what a token becomes in all steps but lead.
func (d *textDecoder) decode(token string, first bool) string {
	return decodeAll(d.after, d.decodeBefore(token, first), first)
}

func (d *textDecoder) decodeBefore(token string, first bool) string {
	return decodeAll(d.before, token, first)
}

func decodeAll(decoders []tokenDecoder, token string, first bool) string {
	for _, d := range decoders {
		token = d.decode(token, first)
	}
	return token
}

// byteToken returns the byte that a token such as <0x0A> stands for.
func byteToken(token string) (byte, bool) {
	if len(token) != len("<0x0A>") || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	digits := strings.TrimPrefix(token[3:5], "+") // which the reference allows
	b, err := strconv.ParseUint(digits, 16, 8)
	return byte(b), err == nil
}

// checkByteLevelDecoder makes sure that the decoder of a byte-level vocabulary is
// ByteLevel, perhaps followed by Fuse, which then has nothing left to do.
func checkByteLevelDecoder(c component) error {
	if c.isNull() {
		return at(c.place, fmt.Errorf("%w: none (served after a ByteLevel pre_tokenizer: ByteLevel)", ErrUnsupported))
	}
	parts, err := c.decoders()
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return at(c.place, fmt.Errorf("%w: an empty Sequence (served after a ByteLevel pre_tokenizer: ByteLevel)", ErrUnsupported))
	}
	for i, part := range parts {
		kind, err := part.kind()
		switch {
		case err != nil:
			return err
		case i == 0 && kind != "ByteLevel":
			return part.unsupported(kind, "ByteLevel after a ByteLevel pre_tokenizer")
		case i == 0:
			if _, err := part.decodeByteLevel(); err != nil {
				return err
			}
		case kind != "Fuse":
			return part.unsupported(kind, "Fuse after ByteLevel")
		}
	}
	return nil
}

// decoders returns the parts of a decoder, Sequences flattened.
func (c component) decoders() ([]component, error) {
	kind, err := c.kind()
	if err != nil || kind != "Sequence" {
		return []component{c}, err
	}
	var v struct {
		tag
		Decoders []jsontext.Value `json:"decoders"`
	}
	if err := c.decode(&v); err != nil {
		return nil, err
	}
	var parts []component
	for _, child := range c.children("decoders", v.Decoders) {
		more, err := child.decoders()
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	return parts, nil
}

// buildDecoder returns the decoder of a vocabulary that is not byte-level.
func buildDecoder(c component) (*textDecoder, error) {
	d := new(textDecoder)
	if c.isNull() {
		d.before = []tokenDecoder{wordDecoder{}}
		return d, nil
	}
	parts, err := c.decoders()
	if err != nil {
		return nil, err
	}
	fused := false
	for _, part := range parts {
		kind, err := part.kind()
		if err != nil {
			return nil, err
		}
		if kind == "Fuse" {
			var v struct{ tag }
			if err := part.decode(&v); err != nil {
				return nil, err
			}
			fused = true
			continue
		}
		if err := part.addDecoder(d, kind, fused); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// errDecoderOrder reports a decoder that does not work on tokens, one by one,
// where it stands.
var errDecoderOrder = fmt.Errorf("%w: after ByteFallback or Fuse", ErrUnsupported)

// addDecoder puts a decoder where it acts in the order of textDecoder.
func (c component) addDecoder(d *textDecoder, kind string, fused bool) error {
	add := func(t tokenDecoder, eachCharacter bool) error {
		switch {
		case !d.byteFallback && !fused:
			d.before = append(d.before, t)
		case !fused && eachCharacter:
			d.after = append(d.after, t)
		default:
			return at(c.place, fmt.Errorf("%w: %s", errDecoderOrder, kind))
		}
		return nil
	}
	switch kind {
	case "ByteFallback":
		var v struct{ tag }
		if d.byteFallback || fused {
			return at(c.place, fmt.Errorf("%w: %s", errDecoderOrder, kind))
		}
		d.byteFallback = true
		return c.decode(&v)
	case "Metaspace":
		m, err := c.decodeMetaspace()
		return errors.Join(err, add(metaspaceDecoder{m.replacement, m.prepend != prependNever}, true))
	case "Replace":
		var v struct {
			tag
			Pattern patternJSON `json:"pattern"`
			Content string      `json:"content"`
		}
		if err := c.decode(&v); err != nil {
			return err
		}
		m, err := v.Pattern.build()
		pattern, ok := m.(literalMatcher)
		if err == nil && !ok {
			err = fmt.Errorf("%w: a Replace of a Regex", ErrUnsupported)
		}
		return errors.Join(at(c.place, err), add(replaceDecoder{string(pattern), v.Content}, utf8.RuneCountInString(string(pattern)) == 1))
	case "Strip":
		var v struct {
			tag
			Content string `json:"content"`
			Start   int    `json:"start"`
			Stop    int    `json:"stop"`
		}
		if err := c.decode(&v); err != nil {
			return err
		}
		content, width := utf8.DecodeRuneInString(v.Content)
		if width != len(v.Content) || width == 0 || v.Start < 0 || v.Stop < 0 {
			return at(c.place, fmt.Errorf("content %q is not one character, or start or stop is negative", v.Content))
		}
		if !fused {
			return add(stripDecoder{content, v.Start, v.Stop}, false)
		}
		if v.Stop > 0 || d.lead.count > 0 {
			return at(c.place, fmt.Errorf("%w: a second Strip after Fuse, or one with stop", ErrUnsupported))
		}
		d.lead = leadingStrip{content, v.Start}
		return nil
	case "WordPiece":
		v := struct {
			tag
			Prefix  string `json:"prefix"`
			Cleanup bool   `json:"cleanup"`
		}{Prefix: "##", Cleanup: true}
		return errors.Join(c.decode(&v), add(wordPieceDecoder{v.Prefix, v.Cleanup}, false))
	}
	return c.unsupported(kind, "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip", "WordPiece", "Sequence; ByteLevel after a ByteLevel pre_tokenizer")
}

// wordDecoder is no decoder: tokens are words.
type wordDecoder struct{}

func (wordDecoder) decode(token string, first bool) string {
	if first {
		return token
	}
	return " " + token
}

// metaspaceDecoder is the decoder Metaspace: the replacement is a space, and
// nothing in the first token if words were given one.
type metaspaceDecoder struct {
	replacement string // one character
	prepended   bool
}

func (d metaspaceDecoder) decode(token string, first bool) string {
	if first && d.prepended {
		return strings.ReplaceAll(token, d.replacement, "")
	}
	return strings.ReplaceAll(token, d.replacement, " ")
}

// replaceDecoder is the decoder Replace, of a string.
type replaceDecoder struct{ pattern, content string }

func (d replaceDecoder) decode(token string, _ bool) string {
	return strings.ReplaceAll(token, d.pattern, d.content)
}

// stripDecoder is the decoder Strip on single tokens.
type stripDecoder struct {
	content     rune
	start, stop int // at most so many
}

func (d stripDecoder) decode(token string, _ bool) string {
	for range d.start {
		r, width := utf8.DecodeRuneInString(token)
		if width == 0 || r != d.content {
			break
		}
		token = token[width:]
	}
	for range d.stop {
		r, width := utf8.DecodeLastRuneInString(token)
		if width == 0 || r != d.content {
			break
		}
		token = token[:len(token)-width]
	}
	return token
}

// wordPieceDecoder is the decoder WordPiece: tokens are words but those with
// the prefix, which continue one.
type wordPieceDecoder struct {
	prefix  string
	cleanup bool
}

func (d wordPieceDecoder) decode(token string, first bool) string {
	if !first {
		if rest, ok := strings.CutPrefix(token, d.prefix); ok {
			token = rest
		} else {
			token = " " + token
		}
	}
	if !d.cleanup {
		return token
	}
	for _, c := range cleanups {
		token = strings.ReplaceAll(token, c[0], c[1])
	}
	return token
}

// cleanups undo, in this order, what splitting English at punctuation does.
// Within one token few can occur; the reference applies them to each all the
// same.
var cleanups = [...][2]string{
	{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
	{" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
}

// textStream decodes tokens one after the other with a textDecoder.
type textStream struct {
	tokenizer         *Tokenizer
	skipSpecialTokens bool
	eager             bool // a character is final when its bytes are complete

	started bool   // a token came
	lead    int    // how often the leading content may still be taken away
	run     []byte // the byte tokens since the last other
	emitted int    // run[:emitted] is in out
	broken  bool   // run can't become UTF-8
	first   bool   // the text began with run
	out     []byte
}

func newTextStream(t *Tokenizer, skipSpecialTokens bool) *textStream {
	return &textStream{tokenizer: t, skipSpecialTokens: skipSpecialTokens, lead: t.decoder.lead.count}
}

// add decodes the next token.
func (s *textStream) add(id int32) {
	t := s.tokenizer
	if !t.exists(id) || s.skipSpecialTokens && t.IsSpecial(id) {
		return
	}
	if b, ok := t.byteOf[id]; ok {
		s.addByte(b)
		return
	}
	s.endRun()
	if s.started {
		s.emit(view(t.TokenBytes(id)))
		return
	}
	s.started = true
	s.emit(t.decoder.decode(t.decodedToken(id), true))
}

// addByte decodes a byte token.
func (s *textStream) addByte(b byte) {
	if len(s.run) == 0 {
		s.first, s.started = !s.started, true
	}
	s.run = append(s.run, b)
	if !s.eager || s.broken {
		return
	}
	valid := validPrefix(s.run[s.emitted:])
	s.emitRun(string(s.run[s.emitted : s.emitted+valid]))
	s.emitted += valid
	if rest := s.run[s.emitted:]; len(rest) > 0 {
		_, s.broken = beginning(rest)
	}
}

// endRun decodes the byte tokens that are left: if all of the run are UTF-8 they
// are characters, else each is U+FFFD. What was emitted before it broke stays.
func (s *textStream) endRun() {
	rest := s.run[s.emitted:]
	if utf8.Valid(s.run) {
		s.emitRun(string(rest))
	} else {
		s.emitRun(strings.Repeat(string(utf8.RuneError), len(rest)))
	}
	s.run, s.emitted, s.broken = s.run[:0], 0, false
}

func (s *textStream) emitRun(text string) {
	s.emit(decodeAll(s.tokenizer.decoder.after, text, s.first))
}

// emit appends text to out, less what is taken from the beginning.
func (s *textStream) emit(text string) {
	for s.lead > 0 && text != "" {
		r, width := utf8.DecodeRuneInString(text)
		if r != s.tokenizer.decoder.lead.content {
			s.lead = 0
			break
		}
		text = text[width:]
		s.lead--
	}
	s.out = append(s.out, text...)
}
