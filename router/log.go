package router

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLog returns the logger that [log] asks for, writing lines to w. No line
// shows a secret of the configuration, at any level.
func NewLog(c Config, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Log.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level = %q: %w", c.Log.Level, err)
	}
	e := zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "msg", StacktraceKey: "stack",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeTime:     zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00"),
		EncodeDuration: zapcore.SecondsDurationEncoder,
	}
	encoder := zapcore.NewJSONEncoder(e)
	if c.Log.Format == "console" {
		e.EncodeLevel = zapcore.CapitalLevelEncoder
		e.EncodeDuration = zapcore.StringDurationEncoder
		e.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(e)
	}
	hide := newSecrets(append(slices.Clone(c.secrets.values), c.harvest()...))
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)
	return zap.New(maskCore{core, hide}), nil
}

// maskCore masks secrets in texts, errors and whatever else is given to a log
// line, before it is encoded: so a line stays valid JSON whatever a secret is.
type maskCore struct {
	zapcore.Core
	hide secrets
}

// With implements zapcore.Core.
func (c maskCore) With(fields []zapcore.Field) zapcore.Core {
	return maskCore{c.Core.With(c.fields(fields)), c.hide}
}

// Check implements zapcore.Core.
func (c maskCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c maskCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message, e.Stack, e.LoggerName = c.hide.mask(e.Message), c.hide.mask(e.Stack), c.hide.mask(e.LoggerName)
	return c.Core.Write(e, c.fields(fields))
}

// fields masks the fields that can carry text; numbers, times and durations
// pass as they are.
func (c maskCore) fields(fields []zapcore.Field) []zapcore.Field {
	if c.hide.replacer == nil {
		return fields
	}
	out := make([]zapcore.Field, len(fields))
	for i, f := range fields {
		out[i] = c.field(f)
	}
	return out
}

func (c maskCore) field(f zapcore.Field) zapcore.Field {
	switch f.Type {
	case zapcore.BoolType, zapcore.DurationType, zapcore.TimeType, zapcore.TimeFullType, zapcore.NamespaceType, zapcore.SkipType,
		zapcore.Float64Type, zapcore.Float32Type, zapcore.Complex128Type, zapcore.Complex64Type,
		zapcore.Int64Type, zapcore.Int32Type, zapcore.Int16Type, zapcore.Int8Type,
		zapcore.Uint64Type, zapcore.Uint32Type, zapcore.Uint16Type, zapcore.Uint8Type, zapcore.UintptrType:
		return f
	case zapcore.StringType:
		f.String = c.hide.mask(f.String)
		return f
	case zapcore.ErrorType:
		if err, ok := f.Interface.(error); ok && err != nil {
			return zap.NamedError(f.Key, errors.New(c.hide.mask(text(err))))
		}
		return f
	case zapcore.ByteStringType, zapcore.BinaryType:
		if b, ok := f.Interface.([]byte); ok {
			f.Interface = []byte(c.hide.mask(string(b)))
		}
		return f
	}
	plain := zapcore.NewMapObjectEncoder()
	f.AddTo(plain)
	if f.Type == zapcore.InlineMarshalerType {
		return zap.Inline(maskedFields{c, plain.Fields})
	}
	return zap.Any(f.Key, c.plain(plain.Fields[f.Key]))
}

// text survives an Error method that panics on a nil receiver.
func text(err error) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprintf("error that cannot be shown: %v", r)
		}
	}()
	return err.Error()
}

// plain masks what an encoder made of an object, an array or any other value.
func (c maskCore) plain(v any) any {
	switch v := v.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, uintptr, float32, float64, time.Time, time.Duration:
		return v
	case string:
		return c.hide.mask(v)
	case []byte:
		return c.hide.mask(string(v))
	case error:
		return c.hide.mask(text(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[c.hide.mask(k)] = c.plain(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = c.plain(inner)
		}
		return out
	case []string:
		out := make([]string, len(v))
		for i, inner := range v {
			out[i] = c.hide.mask(inner)
		}
		return out
	}
	return c.hide.mask(fmt.Sprintf("%+v", v))
}

// maskedFields puts the fields of an inlined object back, masked.
type maskedFields struct {
	core   maskCore
	fields map[string]any
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (m maskedFields) MarshalLogObject(e zapcore.ObjectEncoder) error {
	for k, v := range m.fields {
		zap.Any(k, m.core.plain(v)).AddTo(e)
	}
	return nil
}

// MaskWriter returns a writer that masks the secrets of c in each Write and
// hands it on: for lines that do not come from a logger.
func (c Config) MaskWriter(w io.Writer) io.Writer { return maskWriter{w, c.secrets} }

type maskWriter struct {
	w    io.Writer
	hide secrets
}

// Write implements io.Writer. A masked line has another length than the caller
// gave, and the caller need not know.
func (m maskWriter) Write(p []byte) (int, error) {
	if _, err := io.Copy(m.w, strings.NewReader(m.hide.mask(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}
