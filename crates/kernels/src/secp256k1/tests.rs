//! The lanes beside the reference implementation. Beside libsecp256k1 they run in the crate that uses them.

mod bounds;
mod combs;
mod keys;
mod multiples;
mod scalars;
mod steps;
mod together;
mod twist;

use super::batch::at_a_time;
use super::batch::{Equation, Stated};
use super::digits::{BASE_BITS, BASE_WINDOWS, Bits, Digits, KEY_BITS, KEY_WINDOWS, LAMBDA, Recoded};
use super::divsteps;
use super::field::{Columns, Fe, Loose};
use super::inversions::{self, Inversions};
use super::ladder::{BETA, PAIRS, Room, sums};
use super::point::{self, Axis, Flat, Point, Rung, Ways, each};
use super::portable::Portable;
use super::power::roots;
use super::products::{dot_columns, mul_columns, mul_loose, square, square_columns};
use super::questions::{Question, Statement, Told, is_high};
use super::reference::{
    Affine, Field, GENERATOR, Jacobian, Modulus, Order, Prime, Residue, Scalar, invert_all, to_affine,
};
use super::tables::{BASES, look_up};
use super::vector::{LANES_MAX, Vector};
use super::{Claim, Lanes, Y};
use testkit::{Rng, rounds};

/// Calls a function for each kind of lanes that this processor has, the portable ones included.
macro_rules! each_kind {
    ($test:ident($($argument:expr),*)) => {{
        $test(Portable::detect().expect("every processor has them"), $($argument),*);
        #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
        if let Some(like) = crate::secp256k1::neon::Neon::detect() {
            $test(like, $($argument),*);
        }
        #[cfg(target_arch = "x86_64")]
        {
            use crate::secp256k1::{avx2, avx512};
            if let Some(like) = avx2::Avx2::detect() {
                like.run(|| $test(like, $($argument),*));
            }
            if let Some(like) = avx2::AvxIfma::detect() {
                like.run(|| $test(like, $($argument),*));
            }
            if let Some(like) = avx2::AvxIfmaOfAvx512::detect() {
                like.run(|| $test(like, $($argument),*));
            }
            if let Some(like) = avx512::Avx512::detect() {
                like.run(|| $test(like, $($argument),*));
            }
        }
    }};
}
use each_kind;

fn words(rng: &mut Rng) -> [u64; 4] {
    let edge = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, 0xffff_fffe_ffff_fc2f];
    std::array::from_fn(|_| if rng.below(4) == 0 { edge[rng.below(edge.len())] } else { rng.u64() })
}

fn scalar(rng: &mut Rng) -> Scalar {
    Scalar::reduced(words(rng))
}

/// Numbers of 256 bits around every bound.
fn edges<M: Modulus>() -> Vec<[u64; 4]> {
    let modulus = M::MODULUS;
    let near = |offset: i64| [modulus[0].wrapping_add_signed(offset), modulus[1], modulus[2], modulus[3]];
    let mut edges = vec![[0; 4], [1, 0, 0, 0], [2, 0, 0, 0], [u64::MAX; 4]];
    edges.extend([-2, -1, 0, 1, 2].map(near));
    edges.extend((0..256).step_by(13).map(|bit| std::array::from_fn(|i| u64::from(i == bit / 64) << (bit % 64))));
    edges
}

/// The double-and-add that everything here comes down to; infinity is `None`.
fn multiple(point: Affine, scalar: Scalar) -> Option<Affine> {
    let mut sum: Option<Jacobian> = None;
    for bit in (0..256).rev() {
        sum = sum.map(Jacobian::double);
        if scalar.words()[bit / 64] >> (bit % 64) & 1 == 1 {
            let added = sum.map(|sum| sum.add(point)).filter(|sum| !sum.z.is_zero());
            let complete = || plus(sum.map(|sum| to_affine(&[sum])[0]), Some(point)).map(Affine::jacobian);
            sum = added.or_else(complete);
        }
    }
    sum.map(|sum| to_affine(&[sum])[0])
}

/// The complete sum.
fn plus(a: Option<Affine>, b: Option<Affine>) -> Option<Affine> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    let sum = if a == b {
        a.jacobian().double()
    } else if a.x == b.x {
        return None;
    } else {
        a.jacobian().add(b)
    };
    Some(to_affine(&[sum])[0])
}

fn negative(point: Affine) -> Affine {
    Affine { y: -point.y, ..point }
}

fn small<M: Modulus>(number: u64) -> Residue<M> {
    Residue::reduced([number, 0, 0, 0])
}

#[test]
fn reference_numbers_obey_their_laws() {
    fn laws<M: Modulus + PartialEq + std::fmt::Debug>(rng: &mut Rng) {
        let edges = edges::<M>();
        for round in 0..rounds(2000) {
            let [a, b, c]: [Residue<M>; 3] = std::array::from_fn(|_| {
                Residue::reduced(if rng.below(3) == 0 { edges[rng.below(edges.len())] } else { words(rng) })
            });
            assert!(Residue::<M>::from_words(a.words()).is_some(), "{a:?} is reduced");
            assert_eq!((a + b) * c, a * c + b * c, "round {round}: {a:?} {b:?} {c:?}");
            assert_eq!((a * b) * c, a * (b * c));
            assert_eq!(a - b + b, a);
            assert_eq!(a + -a, Residue::ZERO);
            assert_eq!(a.half() + a.half(), a);
            if !a.is_zero() && round % 20 == 0 {
                assert_eq!(a * a.inverse(), Residue::ONE);
            }
        }
        let modulus = M::MODULUS;
        assert_eq!(Residue::<M>::from_words(modulus), None);
        assert_eq!(Residue::<M>::reduced(modulus), Residue::ZERO);
        // 2^256, from the modulus itself: the complement and one.
        let complement = Residue::<M>::reduced(modulus.map(|word| !word)) + Residue::ONE;
        let two_to_128 = Residue::<M>::reduced([0, 0, 1, 0]);
        assert_eq!(two_to_128.square(), complement);
        let mut numbers: Vec<Residue<M>> = (1..20).map(small).collect();
        invert_all(&mut numbers);
        assert!((1..20).zip(numbers).all(|(number, inverse)| small::<M>(number) * inverse == Residue::ONE));
    }
    let mut rng = Rng::new(1);
    laws::<Prime>(&mut rng);
    laws::<Order>(&mut rng);
}

#[test]
fn inverses_by_steps_are_those_by_powers() {
    fn compare<M: Modulus + PartialEq + std::fmt::Debug>(rng: &mut Rng) {
        let mut numbers: Vec<Residue<M>> = edges::<M>().into_iter().map(Residue::reduced).collect();
        numbers.extend((0..rounds(3000)).map(|_| Residue::reduced(words(rng))));
        for number in numbers {
            let want = number.inverse_by_power();
            let have = divsteps::inverse(number.words(), M::MODULUS).map(Residue::constant);
            assert_eq!(have, (!number.is_zero()).then_some(want), "{number:?}");
            assert_eq!(number.inverse(), want);
        }
    }
    let mut rng = Rng::new(41);
    compare::<Prime>(&mut rng);
    compare::<Order>(&mut rng);
    assert_eq!(divsteps::inverse([15, 0, 0, 0], [45, 0, 0, 0]), None, "no inverse");
}

#[test]
fn constants_are_those_of_the_curve() {
    let on_curve = |p: Affine| p.y.square() == p.x.square() * p.x + small(7);
    assert!(on_curve(GENERATOR));
    assert_eq!(multiple(GENERATOR, -Scalar::ONE), Some(negative(GENERATOR)), "the order");
    // Source: SEC 2 gives no multiples; twice the generator is in libsecp256k1's and others' tests.
    let twice = plus(Some(GENERATOR), Some(GENERATOR)).unwrap();
    assert_eq!(twice.x.words()[3], 0xc604_7f94_41ed_7d6d);
    let beta = Field::constant(BETA);
    assert_eq!(beta * beta + beta + Field::ONE, Field::ZERO);
    assert_eq!(LAMBDA * LAMBDA + LAMBDA + Scalar::ONE, Scalar::ZERO);
    let lambda = multiple(GENERATOR, LAMBDA).unwrap();
    assert_eq!((lambda.x, lambda.y), (GENERATOR.x * beta, GENERATOR.y));
    for (number, high) in [(small(1), false), (-small::<Order>(1), true), (small::<Order>(1).half(), true)] {
        assert_eq!(is_high(number), high, "{number:?}");
    }
    assert!(!is_high(small::<Order>(1).half() - Scalar::ONE) && !is_high(Scalar::ZERO));
}

/// What an element stands for, lane by lane, computed from its limbs by the reference.
fn values<V: Vector>(element: Fe<V>) -> [Field; LANES_MAX] {
    let limbs = element.limbs();
    let weight = Field::reduced([1 << 52, 0, 0, 0]);
    std::array::from_fn(|lane| limbs.iter().rev().fold(Field::ZERO, |sum, limb| sum * weight + small(limb[lane])))
}

/// Elements with every shape of limbs that the invariant allows, and edges.
fn elements<V: Vector>(like: V, rng: &mut Rng) -> Fe<V> {
    let edges = edges::<Prime>();
    let (limb, top) = ((1 << 52) - 1, (1 << 50) - 1);
    let full: [u64; 5] = std::array::from_fn(|i| if i == 4 { top } else { limb });
    let lanes: [[u64; 5]; LANES_MAX] = std::array::from_fn(|_| match rng.below(4) {
        0 => full,
        1 => std::array::from_fn(|i| [0, full[i], rng.u64() & full[i]][rng.below(3)]),
        2 => {
            let w = edges[rng.below(edges.len())];
            let wide = |i: usize| u128::from(w[i]) | u128::from(w.get(i + 1).copied().unwrap_or(0)) << 64;
            std::array::from_fn(|i| (wide(i * 52 / 64) >> (i * 52 % 64)) as u64 & limb)
        }
        _ => std::array::from_fn(|i| rng.u64() & full[i]),
    });
    let limbs = std::array::from_fn(|i| lanes.map(|limbs| limbs[i]));
    Fe::from_limbs(like, &limbs)
}

fn field_in_lanes<V: Vector>(like: V, rng: &mut Rng) {
    let same = |name: &str, columns: Columns<V>, want: &dyn Fn(usize) -> Field| {
        let element = columns.carry();
        let (got, reduced) = (values(element), element.reduced());
        for (lane, got) in got.into_iter().take(V::LANES).enumerate() {
            assert_eq!(got, want(lane), "{name}, lane {lane}");
            assert_eq!(Field::from_words(reduced.to_lanes()[lane]), Some(want(lane)), "{name}, reduced, lane {lane}");
        }
        let zero = (0..V::LANES).fold(0, |mask, lane| mask | u8::from(want(lane).is_zero()) << lane);
        let odd = (0..V::LANES).fold(0, |mask, lane| mask | u8::from(want(lane).is_odd()) << lane);
        assert_eq!((element.is_zero(), element.is_odd()), (zero, odd), "{name}");
    };
    let [a, b, c, d] = std::array::from_fn(|_| elements(like, rng));
    let [va, vb, vc, vd] = [a, b, c, d].map(values);
    let times = |number: u64| small::<Prime>(number);
    same("itself", a.columns(), &|i| va[i]);
    same("product", mul_columns(&a, &b), &|i| va[i] * vb[i]);
    same("square", square_columns(&a), &|i| va[i].square());
    same("two products", dot_columns(&a, &b, &c, &d), &|i| va[i] * vb[i] + vc[i] * vd[i]);
    same("plus", mul_columns(&a, &b).plus(&c), &|i| va[i] * vb[i] + vc[i]);
    same("minus", a.columns().minus(&b), &|i| va[i] - vb[i]);
    same("minus itself", a.columns().minus(&a), &|_| Field::ZERO);
    same("thrice a square", square_columns(&a).thrice(), &|i| va[i].square() * times(3));
    same("four products", mul_columns(&a, &b).shifted::<2>(), &|i| va[i] * vb[i] * times(4));
    same("twice", mul_columns(&a, &b).twice(), &|i| va[i] * vb[i] * times(2));
    let eight = square_columns(&b).shifted::<3>();
    same("product minus eight squares", mul_columns(&a, &c).minus_columns(eight), &|i| {
        va[i] * vc[i] - vb[i].square() * times(8)
    });
    same("minus eight squares", Fe::small(like, 0).columns().minus_columns(eight), &|i| -vb[i].square() * times(8));
    let mask = rng.u64() as u8;
    let sign = |i: usize, value: Field| if mask >> i & 1 == 1 { -value } else { value };
    same("signed product minus", mul_columns(&a, &b).negative_where(mask).minus(&c), &|i| {
        sign(i, va[i] * vb[i]) - vc[i]
    });
    same("signed", a.negative_where(mask).columns(), &|i| sign(i, va[i]));
    same("blend", a.where_else(mask, &b).columns(), &|i| if mask >> i & 1 == 1 { va[i] } else { vb[i] });
    let equal = (0..V::LANES).fold(0, |mask, i| mask | u8::from(va[i] == vb[i]) << i);
    assert_eq!((a.equals(&b), a.equals(&a.columns().carry())), (equal, V::ALL));
}

#[test]
fn field_agrees_with_the_reference() {
    let mut rng = Rng::new(2);
    for _ in 0..rounds(3000) {
        each_kind!(field_in_lanes(&mut rng));
    }
}

#[test]
fn words_and_lanes() {
    fn there_and_back<V: Vector>(like: V, rng: &mut Rng) {
        let numbers: [[u64; 4]; LANES_MAX] = std::array::from_fn(|_| Field::reduced(words(rng)).words());
        assert_eq!(Fe::from_lanes(like, &numbers).to_lanes()[..V::LANES], numbers[..V::LANES]);
        assert_eq!(
            values(Fe::splat(like, numbers[0]))[..V::LANES],
            [Field::reduced(numbers[0]); LANES_MAX][..V::LANES]
        );
        let rows: [[u64; 4]; 8] = std::array::from_fn(|_| std::array::from_fn(|_| rng.u64()));
        let columns = like.gather(rows.each_ref());
        for (at, column) in columns.into_iter().enumerate() {
            assert_eq!(column.store()[..V::LANES], rows.map(|row| row[at])[..V::LANES]);
        }
        let mut back = [[7; 4]; 8];
        V::scatter(columns, back.each_mut());
        assert_eq!((&back[..V::LANES], &back[V::LANES..]), (&rows[..V::LANES], &[[7; 4]; 8][V::LANES..]));
    }
    for round in 0..100 {
        each_kind!(there_and_back(&mut Rng::new(round)));
    }
}

/// Every operation of a kind of vector beside the portable one, on words of all shapes.
#[test]
fn vectors_agree_with_the_portable_one() {
    fn compare<V: Vector>(like: V, rng: &mut Rng) {
        let portable = Portable::detect().expect("every processor has them");
        let [a, b]: [[u64; LANES_MAX]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| words(rng)[0]));
        let (x, y) = (like.load(&a), like.load(&b));
        let mask = rng.u64() as u8;
        for first in (0..V::LANES).step_by(2) {
            let pair = |words: [u64; LANES_MAX]| [words[first], words[first + 1]];
            let of = |words: [u64; LANES_MAX]| portable.load(&[words[first], words[first + 1], 0, 0, 0, 0, 0, 0]);
            let (p, q, m) = (of(a), of(b), mask >> first);
            let same = |name: &str, got: V, want: Portable| {
                assert_eq!(pair(got.store()), want.store()[..2], "{name} of {a:x?} and {b:x?}");
            };
            same("plus", x.plus(y), p.plus(q));
            same("minus", x.minus(y), p.minus(q));
            same("and", x.and(y), p.and(q));
            same("or", x.or(y), p.or(q));
            same("up", x.up::<13>(), p.up::<13>());
            same("down", x.down::<28>(), p.down::<28>());
            same("splat", x.splat(b[0]), p.splat(b[0]));
            same("where", x.where_else(mask, y), p.where_else(m, q));
            same("negative", x.negative_where(mask), p.negative_where(m));
            // Within 2^61 of zero, as the columns of the field are.
            let short = |words: [u64; LANES_MAX]| words.map(|word| (word.cast_signed() >> 2).cast_unsigned());
            let carried = like.load(&short(a)).plus(like.splat(V::CARRY_BIAS)).carried();
            same("carried", carried.minus(like.splat(V::CARRY_BIAS >> 52)), of(short(a)).carried());
            let times = |number: u64| number & 0xf_ffff;
            same("times C", x.plus_c_times(like.load(&b.map(times))), p.plus_c_times(of(b.map(times))));
            let low = |words: [u64; LANES_MAX]| words.map(|word| word & (u64::MAX >> 12));
            let (mut low_half, mut high_half) = (x, y);
            let factors = (like.load(&low(a)), like.load(&low(b)));
            V::add_product(&mut low_half, &mut high_half, factors.0.factor(), factors.1.factor());
            let [low_half, high_half] =
                [low_half.minus(like.splat(V::LOW)).minus(x), high_half.minus(like.splat(V::HIGH)).minus(y)];
            for lane in first..first + 2 {
                let product = u128::from(low(a)[lane]) * u128::from(low(b)[lane]);
                let [low, high] = [low_half, high_half].map(|half| i128::from(half.store()[lane].cast_signed()));
                assert_eq!(low + (high << 52), product.cast_signed(), "{a:x?} {b:x?}");
                let bounds = if V::SIGNED { -(1 << 51)..=1 << 51 } else { 0..=(1 << 52) - 1 };
                assert!(bounds.contains(&low) && (0..1 << 52).contains(&high), "{low:x} {high:x}");
            }
            let bound = (a[first + 1] ^ u64::from(mask & 1)).cast_signed();
            assert_eq!(
                (x.above(bound) >> first & 3, x.minus(y).zeros() >> first & 3),
                (p.above(bound), p.minus(q).zeros())
            );
        }
        assert_eq!((x.minus(x).zeros(), x.minus(x).above(-1), x.above(i64::MAX)), (V::ALL, V::ALL, 0));
    }
    let mut rng = Rng::new(9);
    for _ in 0..if testkit::is_slow() { 10_000_000 } else { rounds(5000) } {
        each_kind!(compare(&mut rng));
    }
}

#[test]
fn powers_agree_with_the_reference() {
    fn compare<V: Vector>(like: V, rng: &mut Rng) {
        let numbers = [(); super::power::WAYS].map(|()| elements(like, rng));
        let squares = [0, 1, 2, 3].map(|way| square(&numbers[way]));
        let roots = roots(&squares);
        for way in 0..numbers.len() {
            assert_eq!(square(&roots[way]).equals(&squares[way]), V::ALL);
        }
    }
    for round in 0..20 {
        each_kind!(compare(&mut Rng::new(round)));
    }
}

/// Numbers and their inverses; zeros among them are told, and the others inverted all the same.
#[test]
fn inversions_agree_with_the_reference() {
    fn compare<V: Vector>(like: V, count: usize, zeros: usize, rng: &mut Rng) {
        let zero = Fe::small(like, 0);
        let places: Vec<(usize, usize, u8)> =
            (0..zeros).map(|_| (rng.below(count), rng.below(2), 1 << rng.below(V::LANES))).collect();
        let mut numbers: Vec<Ways<Fe<V>>> = Vec::new();
        let mut want_zeros = vec![[0; 2]; count];
        for (at, want_zeros) in want_zeros.iter_mut().enumerate() {
            numbers.push(each!(way, {
                let mut number = elements(like, rng);
                // None is zero but those that are meant.
                number = Fe::small(like, 5).where_else(number.is_zero(), &number);
                for &(_, _, lane) in places.iter().filter(|place| (place.0, place.1) == (at, way)) {
                    number = zero.where_else(lane, &number);
                    want_zeros[way] |= lane;
                }
                number
            }));
        }
        let mut inversions = Inversions::new(like);
        for _again in 0..2 {
            inversions.begin(count);
            numbers.iter().for_each(|numbers| inversions.put(numbers));
            let mut have = vec![[0; 2]; count];
            assert_eq!(inversions.invert(), zeros == 0);
            if zeros > 0 {
                inversions.invert_others(|at, zeros| have[at] = zeros);
            }
            assert_eq!(have, want_zeros);
            for (numbers, zeros) in numbers.iter().zip(&have).rev() {
                let inverses = inversions.take();
                for way in 0..2 {
                    let (numbers, inverses) = (values(numbers[way]), values(inverses[way].masked()));
                    for lane in (0..V::LANES).filter(|lane| zeros[way] >> lane & 1 == 0) {
                        assert_eq!(numbers[lane] * inverses[lane], Field::ONE);
                    }
                }
            }
        }
    }
    let mut rng = Rng::new(31);
    for (count, zeros) in [(1, 0), (1, 1), (2, 0), (3, 1), (9, 0), (9, 2), (9, 40)] {
        each_kind!(compare(count, zeros, &mut rng));
    }
}

/// A point in coordinates with a random z.
fn disguised(point: Affine, z: Field) -> Jacobian {
    Jacobian { x: point.x * z.square(), y: point.y * z.square() * z, z }
}

fn in_lanes<V: Vector>(like: V, points: &[Jacobian; LANES_MAX]) -> Point<V> {
    let lanes =
        |number: fn(&Jacobian) -> Field| Fe::from_lanes(like, &points.each_ref().map(|point| number(point).words()));
    Point { x: lanes(|p| p.x), y: lanes(|p| p.y), z: lanes(|p| p.z) }
}

fn out_of_lanes<V: Vector>(point: &Point<V>) -> [Option<Affine>; LANES_MAX] {
    let [x, y, z] = [point.x, point.y, point.z].map(values);
    std::array::from_fn(|i| (!z[i].is_zero()).then(|| to_affine(&[Jacobian { x: x[i], y: y[i], z: z[i] }])[0]))
}

fn points_in_lanes<V: Vector>(like: V, rng: &mut Rng) {
    let random = |rng: &mut Rng| multiple(GENERATOR, small(1 + rng.u64() % 1000)).unwrap();
    let mut p = [GENERATOR; 2 * LANES_MAX];
    let (mut q, mut mask) = (p, [0u8; 2]);
    for lane in 0..p.len() {
        (p[lane], q[lane]) = (random(rng), random(rng));
        match rng.below(4) {
            0 => q[lane] = p[lane],
            1 => q[lane] = negative(p[lane]),
            _ => {}
        }
        mask[lane / LANES_MAX] |= (rng.below(2) as u8) << (lane % LANES_MAX);
    }
    let disguise = p.map(|point| disguised(point, Field::reduced(words(rng)) + small(1)));
    let (first, second) = (disguise.first_chunk().unwrap(), disguise.last_chunk().unwrap());
    let points: Ways<Point<V>> = [in_lanes(like, first), in_lanes(like, second)];
    let flat = q.map(Affine::jacobian);
    let flat = [in_lanes(like, flat.first_chunk().unwrap()), in_lanes(like, flat.last_chunk().unwrap())];
    let flat = each!(i, Flat { x: flat[i].x, y: flat[i].y, negative: mask[i] });
    let mut doubled = points;
    point::double(&mut doubled);
    let rungs = point::add(&points, &flat);
    let sum = each!(i, rungs[i].point());
    // Two and one more, beside three by the other formulas.
    let mut thrice_doubled = sum;
    (0..3).for_each(|_| point::double(&mut thrice_doubled));
    let climbed = each!(i, point::double_times(&rungs[i], 3));
    let after = each!(i, point::double_times(&rungs[i], 1));
    let after = point::add(&after, &flat);
    let after = each!(i, point::double_times(&after[i], 2));
    let start = each!(i, point::double_times(&Rung::new(&Flat { negative: 0, ..flat[i] }), 1));
    for way in 0..2 {
        let (doubled, sum_of) = (out_of_lanes(&doubled[way]), out_of_lanes(&sum[way]));
        let after = out_of_lanes(&after[way]);
        assert_eq!(out_of_lanes(&climbed[way]), out_of_lanes(&thrice_doubled[way]));
        let start = out_of_lanes(&start[way]);
        for lane in 0..V::LANES {
            let p = p[way * LANES_MAX + lane];
            let q = q[way * LANES_MAX + lane];
            assert_eq!(start[lane], plus(Some(q), Some(q)));
            let q = if mask[way] >> lane & 1 == 1 { negative(q) } else { q };
            assert_eq!(doubled[lane], plus(Some(p), Some(p)));
            // Where the reference's sum needs another formula, z is zero, and stays zero.
            assert_eq!(sum_of[lane], if p.x == q.x { None } else { plus(Some(p), Some(q)) });
            assert!(p.x != q.x || after[lane].is_none());
        }
    }
}

#[test]
fn points_agree_with_the_reference() {
    for round in 0..20 {
        each_kind!(points_in_lanes(&mut Rng::new(round)));
    }
}

#[test]
fn tables_hold_odd_multiples() {
    fn entries<V: Vector>(like: V, base: usize, place: usize, want: Affine) {
        // The other lanes read other places.
        let at = place % V::LANES;
        let places = std::array::from_fn(|lane| if lane == at { place as u16 } else { lane as u16 });
        for (axis, want) in [(Axis::X, want.x), (Axis::Y, want.y)] {
            let got = look_up(like, BASES.table(base), &Digits { places, negative: place as u8 }, axis);
            assert_eq!(got.negative, place as u8);
            assert_eq!(values(got.number)[at], want, "{axis:?}, base {base}, place {place}");
        }
    }
    let mut point = GENERATOR;
    for base in 0..BASE_WINDOWS {
        let twice = plus(Some(point), Some(point));
        let mut want = point;
        for place in 0..1 << (BASE_BITS - 1) {
            // Every entry with the reference, and some through the lanes.
            assert_eq!(BASES.table(base)[place].0, [want.x.words(), want.y.words()], "base {base}, place {place}");
            if place % 16 == base % 16 {
                each_kind!(entries(base, place, want));
            }
            want = plus(Some(want), twice).unwrap();
        }
        for _ in 0..BASE_BITS {
            point = plus(Some(point), Some(point)).unwrap();
        }
    }
}

/// The scalar that digits stand for.
fn sum_of(digits: &[Digits], lane: usize, bits: usize) -> Scalar {
    digits.iter().rev().fold(Scalar::ZERO, |sum, digits| {
        assert!(usize::from(digits.places[lane]) < 1 << (bits - 1));
        let digit = small::<Order>(2 * u64::from(digits.places[lane]) + 1);
        let digit = if digits.negative >> lane & 1 == 1 { -digit } else { digit };
        sum * small(1 << bits) + digit
    })
}

#[test]
fn digits_stand_for_their_scalars() {
    let mut rng = Rng::new(3);
    let mut all: Vec<Scalar> = edges::<Order>().into_iter().map(Scalar::reduced).collect();
    all.extend(all.clone().into_iter().map(|scalar| scalar * LAMBDA));
    all.extend(all.clone().into_iter().map(|scalar| scalar + LAMBDA + Scalar::ONE));
    all.extend(all.clone().into_iter().map(Scalar::half));
    all.extend((0..rounds(5000)).map(|_| scalar(&mut rng)));
    let mut recoded = Recoded::ONES;
    for (at, &number) in all.iter().enumerate() {
        let (lane, other) = (at % LANES_MAX, all[rng.below(all.len())]);
        recoded.set(lane, number, other);
        assert_eq!(sum_of(&recoded.base, lane, BASE_BITS), number);
        let [one, lambda] = &recoded.key;
        assert_eq!(sum_of(one, lane, KEY_BITS) + LAMBDA * sum_of(lambda, lane, KEY_BITS), other);
        assert_eq!(one.len(), KEY_WINDOWS);
    }
}

/// Multiples of the generator and of a key.
type Multiples = [Affine; 2];

/// What the ladder says, where it knows.
fn known_sums<V: Vector>(
    like: V,
    keys: &[Affine; 2 * LANES_MAX],
    digits: &Ways<Recoded>,
) -> [Option<Multiples>; 2 * LANES_MAX] {
    let lanes = |way: usize, number: fn(&Affine) -> Field| {
        Fe::from_lanes(like, &std::array::from_fn(|lane| number(&keys[way * LANES_MAX + lane]).words()))
    };
    let keys = each!(i, [lanes(i, |key| key.x), lanes(i, |key| key.y)]);
    let sums = sums(&[keys], std::slice::from_ref(digits), &mut Room::new(like));
    let key = each!(i, out_of_lanes(&sums.key[0][i]));
    let base = each!(i, [values(sums.base[0][i].x), values(sums.base[0][i].y)]);
    std::array::from_fn(|at| {
        let (way, lane) = (at / LANES_MAX, at % LANES_MAX);
        let is_known = lane < V::LANES && sums.unknown[0][way] >> lane & 1 == 0;
        let [x, y] = base[way];
        key[way][lane].filter(|_| is_known).map(|key| [Affine { x: x[lane], y: y[lane] }, key])
    })
}

/// What each kind's ladder says; of lanes that a kind has not, nothing.
fn all_sums(keys: &[Affine; 2 * LANES_MAX], digits: &Ways<Recoded>) -> Vec<Vec<(usize, Option<Multiples>)>> {
    fn push<V: Vector>(
        like: V,
        keys: &[Affine; 2 * LANES_MAX],
        digits: &Ways<Recoded>,
        all: &mut Vec<Vec<(usize, Option<Multiples>)>>,
    ) {
        let sums = known_sums(like, keys, digits).into_iter().enumerate();
        all.push(sums.filter(|(at, _)| at % LANES_MAX < V::LANES).collect());
    }
    let mut all = Vec::new();
    each_kind!(push(keys, digits, &mut all));
    all
}

#[test]
fn sums_agree_with_the_reference_or_are_unknown() {
    let (mut rng, mut unknown) = (Rng::new(4), 0);
    let few = [Scalar::ZERO, Scalar::ONE, -Scalar::ONE, LAMBDA, -LAMBDA, LAMBDA * LAMBDA, small(2), small(31)];
    for round in 0..rounds(60) {
        let mut digits = [Recoded::ONES, Recoded::ONES];
        let (mut keys, mut want) = ([GENERATOR; 2 * LANES_MAX], [None; 2 * LANES_MAX]);
        for at in 0..keys.len() {
            let hard = round % 2 == 1;
            let mut pick = |hard| if hard { few[rng.below(few.len())] } else { scalar(&mut rng) };
            let (base, key, secret) =
                (pick(hard && (at + round) % 3 == 0), pick(hard && (at + round) % 5 == 0), pick(hard));
            let secret = if secret.is_zero() { small(3) } else { secret };
            keys[at] = multiple(GENERATOR, secret).unwrap();
            digits[at / LANES_MAX].set(at % LANES_MAX, base, key);
            want[at] = multiple(GENERATOR, base).zip(multiple(keys[at], key)).map(|(base, key)| [base, key]);
        }
        for (at, got) in all_sums(&keys, &digits).into_iter().flatten() {
            assert!(got.is_none() || got == want[at], "round {round}, lane {at}");
            unknown += usize::from(got.is_none());
            assert!(round % 2 == 1 || got.is_some(), "round {round}, lane {at}: chance does not meet exceptions");
        }
    }
    assert!(unknown > 0 || cfg!(miri), "some keys made exceptions");
}

fn bytes<M: Modulus>(number: Residue<M>) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (to, word) in bytes.chunks_mut(8).zip(number.words().iter().rev()) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// A true claim of each kind.
fn claims(rng: &mut Rng) -> [Claim; 5] {
    claims_about(scalar(rng), rng)
}

/// The same with this message, challenge and tweak.
fn claims_about(message: Scalar, rng: &mut Rng) -> [Claim; 5] {
    claims_by(scalar(rng), message, rng)
}

/// The same with the key of this secret.
fn claims_by(secret: Scalar, message: Scalar, rng: &mut Rng) -> [Claim; 5] {
    let nonce = scalar(rng);
    let (key, point) = (multiple(GENERATOR, secret).unwrap(), multiple(GENERATOR, nonce).unwrap());
    let r = Scalar::reduced(point.x.words());
    let mut s = nonce.inverse() * (message + r * secret);
    // The opposite of s belongs to the opposite of R.
    let odd = point.y.is_odd() != is_high(s);
    if is_high(s) {
        s = -s;
    }
    let y = if key.y.is_odd() { Y::Odd } else { Y::Even };
    let parity = Claim::EcdsaWithParity { x: bytes(key.x), y, r: bytes(r), s: bytes(s), message: bytes(message), odd };
    let ecdsa = |y| Claim::Ecdsa { x: bytes(key.x), y, r: bytes(r), s: bytes(s), message: bytes(message) };
    let even = |point: Affine, scalar: Scalar| if point.y.is_odd() { -scalar } else { scalar };
    let s = even(point, nonce) + message * even(key, secret);
    let schnorr = Claim::Schnorr { x: bytes(key.x), r: bytes(point.x), s: bytes(s), challenge: bytes(message) };
    let lifted = if key.y.is_odd() { negative(key) } else { key };
    let sum = plus(multiple(GENERATOR, message), Some(lifted)).unwrap();
    let tweak = Claim::Tweak { x: bytes(key.x), tweak: bytes(message), sum: bytes(sum.x), odd: sum.y.is_odd() };
    // Of one signature, and not side by side: there they would be proven together.
    [ecdsa(y), schnorr, ecdsa(Y::Given(bytes(key.y))), tweak, parity]
}

/// The numbers of a claim.
fn numbers(claim: &mut Claim) -> Vec<&mut [u8; 32]> {
    match claim {
        Claim::Ecdsa { x, y: Y::Given(y), r, s, message } => vec![x, y, r, s, message],
        Claim::Ecdsa { x, r, s, message, .. } | Claim::EcdsaWithParity { x, r, s, message, .. } => {
            vec![x, r, s, message]
        }
        Claim::Schnorr { x, r, s, challenge } => vec![x, r, s, challenge],
        Claim::Tweak { x, tweak, sum, .. } => vec![x, tweak, sum],
    }
}

#[test]
fn true_claims_are_proven_and_no_others() {
    for lanes in Lanes::available() {
        let mut rng = Rng::new(5);
        let good: Vec<Claim> = (0..rounds(40)).flat_map(|_| claims(&mut rng)).collect();
        for count in [0, 1, 2, 3, 4, 8, 9, 15, 16, 17, 31, 32, 33, 64, good.len()] {
            let count = count.min(good.len());
            assert_eq!(lanes.prove(&good[..count]), vec![true; count], "{count} claims");
        }
        let (mut claims, mut want) = (Vec::new(), Vec::new());
        for (at, claim) in good.iter().enumerate() {
            let mut bad = *claim;
            match &mut bad {
                Claim::Ecdsa { y, .. } if at % 9 == 0 => {
                    *y = match *y {
                        Y::Even => Y::Odd,
                        Y::Odd => Y::Even,
                        Y::Given(mut y) => {
                            y[31] ^= 1;
                            Y::Given(y)
                        }
                    }
                }
                Claim::Tweak { odd, .. } if at % 8 == 3 => *odd = !*odd,
                bad => {
                    let mut numbers = numbers(bad);
                    let which = rng.below(numbers.len());
                    numbers[which][rng.below(32)] ^= 1 << rng.below(8);
                }
            }
            claims.extend([*claim, bad]);
            want.extend([true, false]);
        }
        assert_eq!(lanes.prove(&claims), want);
        // Apart, too: what differs in the key alone is asked together where it stands side by side.
        let apart: Vec<Claim> =
            [0, 1].into_iter().flat_map(|from| claims.iter().copied().skip(from).step_by(2)).collect();
        let want: Vec<bool> = (0..apart.len()).map(|at| at < good.len()).collect();
        assert_eq!(lanes.prove(&apart), want);
        for edge in edges::<Prime>().into_iter().chain(edges::<Order>()) {
            let edge = bytes(Residue::<Prime>::constant(edge));
            let mut claims = Vec::new();
            for claim in &good[..4] {
                for which in 0..numbers(&mut claim.clone()).len() {
                    let mut bad = *claim;
                    *numbers(&mut bad)[which] = edge;
                    claims.push(bad);
                }
            }
            assert_eq!(lanes.prove(&claims), vec![false; claims.len()], "{edge:02x?}");
        }
    }
}

/// The sum's y decides between a point and its negative, which have the same x.
#[test]
fn parities_are_looked_at() {
    for lanes in Lanes::available() {
        let mut rng = Rng::new(7);
        let negated = |number: &mut [u8; 32]| *number = bytes(-Scalar::from_bytes(number).unwrap());
        let (mut all, mut want) = (Vec::new(), Vec::new());
        for _ in 0..rounds(20) {
            for claim in claims(&mut rng) {
                let mut opposite = claim;
                match &mut opposite {
                    Claim::Ecdsa { .. } => continue, // Its y is of no matter.
                    Claim::Schnorr { s, challenge, .. } => [s, challenge].into_iter().for_each(negated),
                    Claim::Tweak { odd, .. } | Claim::EcdsaWithParity { odd, .. } => *odd = !*odd,
                }
                all.extend([claim, opposite]);
                want.extend([true, false]);
            }
        }
        assert_eq!(lanes.prove(&all), want);
    }
}

/// ECDSA signatures with keys of their own, many with one key, and two equal ones side by side, which are asked by their key:
/// for each the parity that the claim with a parity has.
#[test]
fn parities_are_found() {
    for lanes in Lanes::available() {
        let mut rng = Rng::new(13);
        let key = scalar(&mut rng);
        let (mut claims, mut want_proven, mut want_odd) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..rounds(300) {
            let secret = if at % 3 == 0 { key } else { scalar(&mut rng) };
            let [ecdsa, schnorr, given, tweak, parity] = claims_by(secret, scalar(&mut rng), &mut rng);
            let Claim::EcdsaWithParity { odd, .. } = parity else { unreachable!("the last one has a parity") };
            let mut bad = ecdsa;
            numbers(&mut bad)[3][7] ^= 1;
            let more: &[Claim] = match at % 4 {
                0 => &[ecdsa, ecdsa, bad],
                1 => &[ecdsa, schnorr],
                2 => &[bad, given, tweak],
                _ => &[parity, ecdsa, bad],
            };
            for claim in more {
                claims.push(*claim);
                want_proven.push(*claim != bad);
                let is_ecdsa = matches!(claim, Claim::Ecdsa { .. } | Claim::EcdsaWithParity { .. });
                want_odd.push((is_ecdsa && *claim != bad).then_some(odd));
            }
        }
        let mut found = vec![false; claims.len()];
        assert_eq!(lanes.prove_and_find(&claims, &mut found), want_proven, "{lanes:?}");
        for (at, claim) in claims.iter().enumerate() {
            assert!(want_odd[at].is_none_or(|odd| odd == found[at]), "{lanes:?}, {at}: {claim:02x?}");
        }
        assert!([true, false].iter().all(|value| want_odd.contains(&Some(*value))));
    }
}

/// What was signed may be any 32 bytes, and so may a challenge; a tweak is below the order. Zero times a point has no
/// coordinates: nothing is proven with it.
#[test]
fn messages_are_reduced() {
    for lanes in Lanes::available() {
        let mut rng = Rng::new(8);
        for message in [0, 1, 2, 1 << 60] {
            let mut claims = claims_about(small(message), &mut rng);
            let reduced = message != 0;
            assert_eq!(lanes.prove(&claims), [reduced; 5], "{message}");
            let mut above = Order::MODULUS;
            above[0] += message;
            let above = bytes(Residue::<Order>::constant(above));
            for claim in &mut claims {
                let (Claim::Ecdsa { message, .. }
                | Claim::EcdsaWithParity { message, .. }
                | Claim::Schnorr { challenge: message, .. }
                | Claim::Tweak { tweak: message, .. }) = claim;
                *message = above;
            }
            assert_eq!(lanes.prove(&claims), [reduced, reduced, reduced, false, reduced], "{message} and the order");
        }
    }
}

/// A key's x with no point: what the equation has for its y is no root, whatever r is claimed.
#[test]
fn keys_off_the_curve_prove_nothing() {
    let (mut rng, mut claims) = (Rng::new(6), Vec::new());
    while claims.len() < rounds(400) {
        let x = Field::reduced(words(&mut rng));
        let square = x.square() * x + small(7);
        let y = square.power(bounds::ROOT);
        if y.square() == square {
            continue;
        }
        assert_eq!(y.square(), -square, "it has no root");
        let (x, r, s) = (bytes(x), bytes(scalar(&mut rng)), scalar(&mut rng));
        let s = bytes(if is_high(s) { -s } else { s });
        let message = bytes(scalar(&mut rng));
        claims.push(match rng.below(4) {
            0 => Claim::Tweak { x, tweak: message, sum: r, odd: rng.below(2) == 0 },
            1 => Claim::Schnorr { x, r, s, challenge: message },
            _ => Claim::Ecdsa { x, y: [Y::Even, Y::Odd, Y::Given(bytes(y))][rng.below(3)], r, s, message },
        });
    }
    for lanes in Lanes::available() {
        assert_eq!(lanes.prove(&claims), vec![false; claims.len()], "{lanes:?}");
    }
}

/// With x = 0 there is no key, but a point of order three on the curve that the ladder takes: it meets itself
/// everywhere. What stands beside it is proven all the same, at every place of some pairs of vectors.
#[test]
fn exceptions_leave_other_lanes_alone() {
    let mut rng = Rng::new(11);
    let zero = |claim: Claim| match claim {
        Claim::Ecdsa { r, s, message, .. } => Claim::Ecdsa { x: [0; 32], y: Y::Odd, r, s, message },
        other => other,
    };
    for lanes in Lanes::available() {
        let two = [claims(&mut rng)[0], claims(&mut rng)[2]];
        let good: Vec<Claim> = (0..lanes.width() * 2).map(|at| two[at % 2]).collect();
        for bad in (0..good.len()).step_by(if cfg!(debug_assertions) { 5 } else { 1 }) {
            let mut all = good.clone();
            all[bad] = zero(all[bad]);
            let want: Vec<bool> = (0..all.len()).map(|at| at != bad).collect();
            assert_eq!(lanes.prove(&all), want, "{lanes:?}, {bad}");
        }
        let all: Vec<Claim> = good.into_iter().map(zero).collect();
        assert_eq!(lanes.prove(&all), vec![false; all.len()], "{lanes:?}");
    }
}

#[test]
fn parts_of_questions_are_about_as_long() {
    for (pairs, want) in [(0, 1), (1, 1), (PAIRS, PAIRS), (PAIRS + 1, PAIRS.div_ceil(2) + 1), (2 * PAIRS + 1, 7)] {
        for more in [0, 15] {
            let count = (16 * pairs).saturating_sub(more);
            assert_eq!(at_a_time(count, 16), 16 * want, "{count} questions");
        }
    }
}

/// More claims than share inversions, and one that is false at each place.
#[test]
fn places_are_kept() {
    let mut rng = Rng::new(12);
    for (lanes, more) in Lanes::available().into_iter().flat_map(|lanes| [(lanes, 0), (lanes, 3)]) {
        let count = lanes.width() * PAIRS + more;
        let four = [claims(&mut rng), claims(&mut rng)];
        let good: Vec<Claim> = (0..count).map(|at| four[at / 4 % 2][at % 4]).collect();
        assert_eq!(lanes.prove(&good), vec![true; count], "{lanes:?}");
        let false_at = |at: usize| at % 7 == 3;
        let mixed: Vec<Claim> = (0..count)
            .map(|at| {
                let mut claim = good[at];
                if false_at(at) {
                    numbers(&mut claim)[0][31] ^= 1;
                }
                claim
            })
            .collect();
        let want: Vec<bool> = (0..count).map(|at| !false_at(at)).collect();
        assert_eq!(lanes.prove(&mixed), want, "{lanes:?}");
    }
}
