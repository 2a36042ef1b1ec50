// Carlson's symmetric elliptic integrals by duplication: B. C. Carlson, Numerical
// computation of real or complex elliptic integrals, Numerical Algorithms 10 (1995),
// 13-26; the series at the end of it have the terms of DLMF 19.36.1 and 19.36.2.
#pragma once

namespace workbench {

inline double size_of(double x) { return std::abs(x); }
inline double size_of(const std::complex<double> &z) { return std::abs(z); }
inline double real_of(double x) { return x; }
inline double real_of(const std::complex<double> &z) { return z.real(); }
inline double imaginary_of(double) { return 0; }
inline double imaginary_of(const std::complex<double> &z) { return z.imag(); }

template <typename T>
bool is_zero(T x) {
    return real_of(x) == 0 && imaginary_of(x) == 0;
}
template <typename T>
bool is_infinite(T x) {
    return size_of(x) > 1.7976931348623157e308;
}
// The cut along the negative numbers, and NaN.
template <typename T>
bool is_outside(T x) {
    return !(size_of(x) >= 0) || (imaginary_of(x) == 0 && real_of(x) < 0);
}

template <typename T>
struct Triple {
    T x, y, z;
    int zeros() const { return is_zero(x) + is_zero(y) + is_zero(z); }
    bool outside() const { return is_outside(x) || is_outside(y) || is_outside(z); }
    bool infinite() const { return is_infinite(x) || is_infinite(y) || is_infinite(z); }
    double distance(T mean) const {
        double a = size_of(mean - x), b = size_of(mean - y), c = size_of(mean - z);
        a = a > b ? a : b;
        return a > c ? a : c;
    }
};

template <typename T>
T elliprc(T x, T y) {
    if (!(size_of(y) >= 0) || is_outside(x)) {
        return T(NAN);
    }
    if (is_zero(y)) {
        return T(INFINITY);
    }
    if (is_infinite(x) || is_infinite(y)) {
        return T(0);
    }
    if (imaginary_of(y) == 0 && real_of(y) < 0) { // the principal value
        return std::sqrt(x / (x - y)) * elliprc(x - y, -y);
    }
    T mean = (x + 2.0 * y) / 3.0, start = y - mean;
    double error = 160 * size_of(mean - x), quarter = 1;
    while (error >= size_of(mean)) {
        T lambda = 2.0 * std::sqrt(x) * std::sqrt(y) + y;
        mean = 0.25 * (mean + lambda);
        x = 0.25 * (x + lambda);
        y = 0.25 * (y + lambda);
        error *= 0.25;
        quarter *= 0.25;
    }
    T s = quarter * start / mean;
    T sum = 1.0 + s * s *
                      (3.0 / 10 +
                       s * (1.0 / 7 +
                            s * (3.0 / 8 +
                                 s * (9.0 / 22 + s * (159.0 / 208 + s * (9.0 / 8))))));
    return sum / std::sqrt(mean);
}

template <typename T>
T elliprf(T x, T y, T z) {
    Triple<T> all{x, y, z};
    if (all.outside()) {
        return T(NAN);
    }
    if (all.infinite()) {
        return T(0);
    }
    if (all.zeros() > 1) {
        return T(INFINITY);
    }
    T mean = (x + y + z) / 3.0;
    double error = 500 * all.distance(mean);
    while (error >= size_of(mean)) {
        T a = std::sqrt(x), b = std::sqrt(y), c = std::sqrt(z);
        T lambda = a * b + a * c + b * c;
        mean = 0.25 * (mean + lambda);
        x = 0.25 * (x + lambda);
        y = 0.25 * (y + lambda);
        z = 0.25 * (z + lambda);
        error *= 0.25;
    }
    T X = 1.0 - x / mean, Y = 1.0 - y / mean, Z = -(X + Y);
    T e2 = X * Y - Z * Z, e3 = X * Y * Z;
    T sum = 1.0 - e2 / 10.0 + e3 / 14.0 + e2 * e2 / 24.0 - 3.0 * e2 * e3 / 44.0 -
            5.0 * e2 * e2 * e2 / 208.0 + 3.0 * e3 * e3 / 104.0 + e2 * e2 * e3 / 16.0;
    return sum / std::sqrt(mean);
}

// The series of RD and RJ, DLMF 19.36.2.
template <typename T>
T series_of_five(T e2, T e3, T e4, T e5) {
    return 1.0 - 3.0 * e2 / 14.0 + e3 / 6.0 + 9.0 * e2 * e2 / 88.0 - 3.0 * e4 / 22.0 -
           9.0 * e2 * e3 / 52.0 + 3.0 * e5 / 26.0 - e2 * e2 * e2 / 16.0 +
           3.0 * e3 * e3 / 40.0 + 3.0 * e2 * e4 / 20.0 + 45.0 * e2 * e2 * e3 / 272.0 -
           9.0 * (e3 * e4 + e2 * e5) / 68.0;
}

template <typename T>
T elliprd(T x, T y, T z) {
    Triple<T> all{x, y, z};
    if (all.outside()) {
        return T(NAN);
    }
    if (all.infinite()) {
        return T(0);
    }
    if (is_zero(z) || all.zeros() > 1) {
        return T(INFINITY);
    }
    T mean = (x + y + 3.0 * z) / 5.0, sum(0);
    double error = 500 * all.distance(mean), quarter = 1;
    while (error >= size_of(mean)) {
        T a = std::sqrt(x), b = std::sqrt(y), c = std::sqrt(z);
        T lambda = a * b + a * c + b * c;
        sum += quarter / (c * (z + lambda));
        mean = 0.25 * (mean + lambda);
        x = 0.25 * (x + lambda);
        y = 0.25 * (y + lambda);
        z = 0.25 * (z + lambda);
        error *= 0.25;
        quarter *= 0.25;
    }
    T X = 1.0 - x / mean, Y = 1.0 - y / mean, Z = -(X + Y) / 3.0, xy = X * Y, zz = Z * Z;
    T series = series_of_five(
        xy - 6.0 * zz, (3.0 * xy - 8.0 * zz) * Z, 3.0 * (xy - zz) * zz, xy * Z * zz
    );
    return quarter * series / (mean * std::sqrt(mean)) + 3.0 * sum;
}

// Twice its third is a sum of positive terms, DLMF 19.21.11.
template <typename T>
T elliprg(T x, T y, T z) {
    Triple<T> all{x, y, z};
    if (all.outside()) {
        return T(NAN);
    }
    if (all.infinite()) {
        return T(INFINITY);
    }
    if (all.zeros() > 1) {
        return 0.5 * std::sqrt(x + y + z);
    }
    T sum(0);
    for (int turn = 0; turn < 3; ++turn) {
        if (!is_zero(x)) {
            sum += x * (y + z) * elliprd(y, z, x);
        }
        T first = x;
        x = y;
        y = z;
        z = first;
    }
    return sum / 6.0;
}

// Where the duplication holds for complex numbers: conditions of Carlson's algorithm.
inline bool is_conjugate(double x, double y) { return x == y; }
inline bool is_conjugate(std::complex<double> x, std::complex<double> y) {
    return x.real() == y.real() && x.imag() == -y.imag();
}
template <typename T>
bool is_positive(T x) {
    return imaginary_of(x) == 0 && real_of(x) >= 0;
}

template <typename T>
T duplicate_rj(T x, T y, T z, T p) {
    Triple<T> all{x, y, z};
    T mean = (x + y + z + 2.0 * p) / 5.0, sum(0);
    T delta = (p - x) * (p - y) * (p - z);
    double error = all.distance(mean), last = size_of(mean - p), quarter = 1;
    for (error = 500 * (error > last ? error : last); error >= size_of(mean);) {
        T a = std::sqrt(x), b = std::sqrt(y), c = std::sqrt(z), s = std::sqrt(p);
        T lambda = a * b + a * c + b * c, d = (s + a) * (s + b) * (s + c);
        sum += quarter / d * elliprc(T(1), 1.0 + quarter * quarter * quarter * delta / (d * d));
        mean = 0.25 * (mean + lambda);
        x = 0.25 * (x + lambda);
        y = 0.25 * (y + lambda);
        z = 0.25 * (z + lambda);
        p = 0.25 * (p + lambda);
        error *= 0.25;
        quarter *= 0.25;
    }
    T X = 1.0 - x / mean, Y = 1.0 - y / mean, Z = 1.0 - z / mean, P = -0.5 * (X + Y + Z);
    T xyz = X * Y * Z, pp = P * P, e2 = X * Y + X * Z + Y * Z - 3.0 * pp;
    T series = series_of_five(
        e2, xyz + 2.0 * e2 * P + 4.0 * P * pp, (2.0 * xyz + e2 * P + 3.0 * P * pp) * P, xyz * pp
    );
    return quarter * series / (mean * std::sqrt(mean)) + 6.0 * sum;
}

template <typename T>
T elliprj(T x, T y, T z, T p) {
    Triple<T> all{x, y, z};
    if (all.outside() || !(size_of(p) >= 0)) {
        return T(NAN);
    }
    if (all.infinite() || is_infinite(p)) {
        return T(0);
    }
    if (is_zero(p) || all.zeros() > 1) {
        return T(INFINITY);
    }
    bool real = is_positive(x) && is_positive(y) && is_positive(z);
    if (imaginary_of(p) == 0 && real_of(p) < 0) { // the principal value, 19.20.14
        if (!real) {
            return T(NAN);
        }
        if (real_of(x) > real_of(y)) {
            std::swap(x, y);
        }
        if (real_of(y) > real_of(z)) {
            std::swap(y, z);
        }
        if (real_of(x) > real_of(y)) {
            std::swap(x, y);
        }
        T q = -p, xy = x * y;
        T r = (z * (x + y + q) - xy) / (z + q), s = xy + r * q;
        return ((r - z) * duplicate_rj(x, y, z, r) - 3.0 * elliprf(x, y, z) +
                3.0 * std::sqrt(xy * z / s) * elliprc(s, r * q)) /
               (z + q);
    }
    bool right = real_of(x) >= 0 && real_of(y) >= 0 && real_of(z) >= 0 && real_of(p) > 0;
    bool paired = (is_positive(x) && is_conjugate(y, z)) ||
                  (is_positive(y) && is_conjugate(x, z)) ||
                  (is_positive(z) && is_conjugate(x, y));
    return real || right || paired ? duplicate_rj(x, y, z, p) : T(NAN);
}

} // namespace workbench
