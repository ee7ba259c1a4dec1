package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftime is Python's datetime.strftime in the C locale, with the GNU flags
// "-" (no padding), "_" (blanks), "0" (zeros) and "^" (upper case). Like
// datetime.now() it knows no time zone: %z and %Z are empty.
func strftime(t time.Time, layout string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		start := i
		i++
		flag := byte(0)
		if strings.IndexByte("-_0^#", layout[i]) >= 0 && i+1 < len(layout) {
			flag = layout[i]
			i++
		}
		text, ok, err := timeField(t, layout[i], flag)
		if err != nil {
			return "", err
		}
		if !ok {
			text = layout[start : i+1] // an unknown code stays
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func timeField(t time.Time, code, flag byte) (text string, ok bool, err error) {
	if n, width, pad := timeNumber(t, code); width > 0 {
		switch flag {
		case '-':
			width = 0
		case '_':
			pad = ' '
		case '0':
			pad = '0'
		}
		if pad == ' ' {
			return fmt.Sprintf("%*d", width, n), true, nil
		}
		return fmt.Sprintf("%0*d", width, n), true, nil
	}
	compound := map[byte]string{
		'c': "%a %b %e %H:%M:%S %Y", 'x': "%m/%d/%y", 'D': "%m/%d/%y", 'X': "%H:%M:%S", 'T': "%H:%M:%S",
		'F': "%Y-%m-%d", 'R': "%H:%M", 'r': "%I:%M:%S %p",
	}
	if layout, ok := compound[code]; ok {
		text, err := strftime(t, layout)
		return text, true, err
	}
	switch code {
	case 'a':
		text = t.Format("Mon")
	case 'A':
		text = t.Format("Monday")
	case 'b', 'h':
		text = t.Format("Jan")
	case 'B':
		text = t.Format("January")
	case 'p':
		text = t.Format("PM")
		if flag == '#' {
			text = strings.ToLower(text)
		}
	case 'P':
		text = t.Format("pm")
	case 'z', 'Z':
	case 'n':
		text = "\n"
	case 't':
		text = "\t"
	case '%':
		text = "%"
	default:
		return "", false, nil
	}
	if flag == '^' || flag == '#' && code != 'p' {
		text = strings.ToUpper(text)
	}
	return text, true, nil
}

// timeNumber is the number of a numeric code, with its width and padding; width
// is 0 for the other codes.
func timeNumber(t time.Time, code byte) (n, width int, pad byte) {
	isoYear, isoWeek := t.ISOWeek()
	weekday := int(t.Weekday())
	hour12 := (t.Hour()+11)%12 + 1
	switch code {
	case 'd':
		return t.Day(), 2, '0'
	case 'e':
		return t.Day(), 2, ' '
	case 'm':
		return int(t.Month()), 2, '0'
	case 'y':
		return t.Year() % 100, 2, '0'
	case 'Y':
		return t.Year(), 1, '0'
	case 'C':
		return t.Year() / 100, 2, '0'
	case 'H':
		return t.Hour(), 2, '0'
	case 'k':
		return t.Hour(), 2, ' '
	case 'I':
		return hour12, 2, '0'
	case 'l':
		return hour12, 2, ' '
	case 'M':
		return t.Minute(), 2, '0'
	case 'S':
		return t.Second(), 2, '0'
	case 'f':
		return t.Nanosecond() / 1000, 6, '0'
	case 'j':
		return t.YearDay(), 3, '0'
	case 'w':
		return weekday, 1, '0'
	case 'u':
		return (weekday+6)%7 + 1, 1, '0'
	case 'U':
		return (t.YearDay() + 6 - weekday) / 7, 2, '0'
	case 'W':
		return (t.YearDay() + 6 - (weekday+6)%7) / 7, 2, '0'
	case 'V':
		return isoWeek, 2, '0'
	case 'G':
		return isoYear, 1, '0'
	case 'g':
		return isoYear % 100, 2, '0'
	case 's':
		return int(t.Unix()), 1, '0'
	}
	return 0, 0, 0
}
