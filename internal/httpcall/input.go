package httpcall

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// parts are the parts of a request.
type parts struct {
	path, header map[string]string
	query        url.Values
	body         any
}

// split distributes the fields of an input over the parts of a request, by their tags.
func split(in any) (parts, error) {
	p := parts{path: map[string]string{}}
	err := p.add(reflect.ValueOf(in))
	return p, err
}

// ask adds parameters of the query.
func (p *parts) ask(name string, texts []string) {
	if p.query == nil {
		p.query = url.Values{}
	}
	p.query[name] = texts
}

func (p *parts) add(v reflect.Value) error {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		switch {
		case field.Anonymous:
			if err := p.add(value); err != nil {
				return err
			}
		case field.Name == "Body":
			p.body = value.Interface()
		case field.Type == reflect.TypeFor[url.Values]():
			for name, texts := range value.Interface().(url.Values) {
				p.ask(name, texts)
			}
		default:
			if err := p.addField(field, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *parts) addField(field reflect.StructField, value reflect.Value) error {
	texts, err := textsOf(value)
	if err != nil {
		return fmt.Errorf("%s: %w", field.Name, err)
	}
	if name := field.Tag.Get("path"); name != "" {
		p.path[name] = ""
		if len(texts) > 0 {
			p.path[name] = texts[0]
		}
	}
	if len(texts) == 0 {
		return nil
	}
	if name, option, _ := strings.Cut(field.Tag.Get("query"), ","); name != "" {
		if option != "explode" { // the values of a list are one parameter, with commas
			texts = []string{strings.Join(texts, ",")}
		}
		p.ask(name, texts)
	}
	if name := field.Tag.Get("header"); name != "" {
		if p.header == nil {
			p.header = map[string]string{}
		}
		p.header[name] = texts[0]
	}
	return nil
}

// textsOf returns the texts of a value; none for the zero value.
func textsOf(v reflect.Value) ([]string, error) {
	if v.IsZero() {
		return nil, nil
	}
	switch value := v.Interface().(type) {
	case time.Time:
		return []string{value.UTC().Format(time.RFC3339Nano)}, nil
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		return []string{string(text)}, err
	}
	switch v.Kind() {
	case reflect.String:
		return []string{v.String()}, nil
	case reflect.Bool:
		return []string{strconv.FormatBool(v.Bool())}, nil
	case reflect.Int:
		return []string{strconv.FormatInt(v.Int(), 10)}, nil
	case reflect.Slice:
		var texts []string
		for i := range v.Len() {
			more, err := textsOf(v.Index(i))
			if err != nil {
				return nil, err
			}
			texts = append(texts, more...)
		}
		return texts, nil
	default:
		return nil, fmt.Errorf("cannot be a parameter: %s", v.Type())
	}
}
