//! Numbers at the bounds: limbs as large as they may be, multiples of the prime, scalars whose halves are longest.

use super::*;

/// The largest limbs of an element.
const FULL: [u64; 5] = [(1 << 52) - 1, (1 << 52) - 1, (1 << 52) - 1, (1 << 52) - 1, (1 << 50) - 1];
/// The prime's limbs.
const PRIME: [u64; 5] = [0xf_fffe_ffff_fc2f, FULL[0], FULL[0], FULL[0], (1 << 48) - 1];

/// (p + 1) / 4, the power that is a root where there is one.
pub(super) const ROOT: [u64; 4] = [0xffff_ffff_bfff_ff0c, u64::MAX, u64::MAX, u64::MAX >> 2];

/// Elements whose limbs are none, full or random, full more often than not.
fn extremes<V: Vector>(like: V, rng: &mut Rng) -> Fe<V> {
    let limbs = FULL.map(|full| [(); LANES_MAX].map(|()| [full, full, 0, rng.u64() & full][rng.below(4)]));
    Fe::from_limbs(like, &if rng.below(4) == 0 { FULL.map(|full| [full; LANES_MAX]) } else { limbs })
}

/// The formulas are polynomials: what they say holds for any numbers, not only for points. Their columns are largest
/// where the limbs are.
fn formulas_at_the_bounds<V: Vector>(like: V, rng: &mut Rng) {
    let points: Ways<Point<V>> =
        each!(_i, Point { x: extremes(like, rng), y: extremes(like, rng), z: extremes(like, rng) });
    let added = each!(_i, Flat { x: extremes(like, rng), y: extremes(like, rng), negative: rng.u64() as u8 });
    let mut doubled = points;
    point::double(&mut doubled);
    let sums = point::add(&points, &added);
    let rungs = each!(i, Rung { x: points[i].x.loose(), y: points[i].y.loose(), z: points[i].z.loose() });
    let (climbed, climbed_on) =
        (each!(i, point::double_times(&rungs[i], 1)), each!(i, point::double_times(&rungs[i], 3)));
    flat_at_the_bounds(like, rng);
    for way in 0..points.len() {
        let numbers = |point: &Point<V>| [point.x, point.y, point.z].map(values);
        let [x, y, z] = numbers(&points[way]);
        let (doubled, sums) =
            (numbers(&doubled[way]), [sums[way].x, sums[way].y, sums[way].z].map(|number| values(number.masked())));
        let (climbed, climbed_on) = (numbers(&climbed[way]), numbers(&climbed_on[way]));
        let [add_x, add_y] = [added[way].x, added[way].y].map(values);
        for lane in 0..V::LANES {
            let point = Jacobian { x: x[lane], y: y[lane], z: z[lane] };
            let twice = point.double();
            assert_eq!(doubled.map(|number| number[lane]), [twice.x, twice.y, twice.z], "lane {lane}");
            // Half of x is there. With z3 = y z all is as with half of the other z3.
            let climb = |point: Jacobian| {
                let Jacobian { x, y, z } = point.double();
                Jacobian { x: x.half().half(), y: y.half().half().half(), z: z.half() }
            };
            let once = climb(Jacobian { x: point.x + point.x, ..point });
            let on = climb(climb(once));
            assert_eq!(climbed.map(|number| number[lane]), [once.x, once.y, once.z], "lane {lane}");
            assert_eq!(climbed_on.map(|number| number[lane]), [on.x, on.y, on.z], "lane {lane}");
            let negative = added[way].negative >> lane & 1 == 1;
            let other = Affine { x: add_x[lane], y: if negative { -add_y[lane] } else { add_y[lane] } };
            let sum = point.add(other);
            let want = [sum.x * small(2), sum.y * small(8), sum.z * small(2)];
            assert_eq!(sums.map(|number| number[lane]), want, "lane {lane}");
        }
    }
}

/// The sum, where `inverse` is that of what `rise` was divided by.
fn flat_sum<V: Vector>(a: &Flat<V>, b: &Flat<V>, rise: &Loose<V>, inverse: &Fe<V>) -> Flat<V> {
    let slope = mul_loose(rise, inverse);
    let [a_x, b_x] = [a, b].map(|point| point.coordinate(Axis::X));
    let (x, back) = inversions::sum_x(square_columns(&slope), &a_x, &b_x);
    Flat { x, y: inversions::sum_y(&slope, &back, &a.coordinate(Axis::Y)), negative: 0 }
}

/// The same of sums of points with z = 1.
fn flat_at_the_bounds<V: Vector>(like: V, rng: &mut Rng) {
    let [a, b] = [(); 2].map(|()| Flat { x: extremes(like, rng), y: extremes(like, rng), negative: rng.u64() as u8 });
    let inverse = extremes(like, rng);
    let [[a_x, a_y], [b_x, b_y]] = [a, b].map(|point| [Axis::X, Axis::Y].map(|axis| point.coordinate(axis)));
    let difference = values(inversions::difference(&a_x, &b_x).masked());
    let sum = flat_sum(&a, &b, &inversions::rise(&a_y, &b_y), &inverse);
    let by_lanes = inverse;
    let [sum_x, sum_y, inverse] = [sum.x, sum.y, inverse].map(values);
    assert_eq!(sum.negative, 0);
    let a_twice = Flat { negative: 0, ..a };
    let twice = flat_sum(&a_twice, &a_twice, &inversions::double_rise(&a_x), &by_lanes);
    let twice_y = values(inversions::twice_y(&a_twice.coordinate(Axis::Y)).masked());
    let [twice_x3, twice_y3, x1, y1] = [twice.x, twice.y, a.x, a.y].map(values);
    for lane in 0..V::LANES {
        let [[ax, ay], [bx, by]] = [&a, &b].map(|point| {
            let (x, y) = (values(point.x)[lane], values(point.y)[lane]);
            [x, if point.negative >> lane & 1 == 1 { -y } else { y }]
        });
        let slope = x1[lane].square() * small(3) * inverse[lane];
        let x = slope.square() - x1[lane] - x1[lane];
        let want = [x, slope * (x1[lane] - x) - y1[lane], y1[lane] + y1[lane]];
        assert_eq!([twice_x3[lane], twice_y3[lane], twice_y[lane]], want, "lane {lane}");
        let slope = (by - ay) * inverse[lane];
        let x = slope.square() - ax - bx;
        assert_eq!([sum_x[lane], sum_y[lane], difference[lane]], [x, slope * (ax - x) - ay, bx - ax], "lane {lane}");
    }
}

#[test]
fn formulas_hold_for_the_largest_limbs() {
    let mut rng = Rng::new(21);
    for _ in 0..rounds(2000) {
        each_kind!(formulas_at_the_bounds(&mut rng));
    }
}

/// The point's y by the equation, and all that is made of it, as [`super::super::batch`] says it.
struct Solution {
    /// g, D, V, W, h, N where r is zero, and what N has less for each r.
    numbers: [Field; 7],
    y: Field,
    sum_y: Field,
}

fn solution([x, r]: [Field; 2], base: Affine, key: Jacobian, inverse: Field) -> Solution {
    let g = x.square() * x + small(7);
    let d = key.z.square() * g;
    let v = small::<Prime>(2) * base.y * key.y * key.z;
    let (w, h) = (v * d, base.x * d - key.x);
    let left = base.y.square() * d * d.square() + key.y.square();
    let n = |r: Field| left - ((r + base.x) * d + key.x) * h.square();
    let y = n(r) * h * inverse;
    // Where `inverse` is 1 / (W h), v h times it is 1 / D, and D W times it is D / h.
    let y2 = key.y * key.z * y * (inverse * v * h).square();
    let slope = (base.y - y2) * d * inverse * w;
    let step = n(Field::ZERO) - n(Field::ONE);
    Solution { numbers: [g, d, v, w, h, n(Field::ZERO), step], y, sum_y: slope * (base.x - r) - base.y }
}

/// An element that stands for these numbers, each more by zero to three times the prime.
fn unreduced<V: Vector>(like: V, numbers: [Field; LANES_MAX], rng: &mut Rng) -> Fe<V> {
    let lanes = numbers.map(|number| {
        let w = number.words();
        let low = [w[0], w[0] >> 52 | w[1] << 12, w[1] >> 40 | w[2] << 24, w[2] >> 28 | w[3] << 36, w[3] >> 16];
        let (times, mut carry) = (rng.u64() & 3, 0);
        [0, 1, 2, 3, 4].map(|i| {
            carry += u128::from(low[i] & FULL[0]) + u128::from(times * PRIME[i]);
            let limb = carry as u64 & FULL[0];
            carry >>= 52;
            limb
        })
    });
    Fe::from_limbs(like, &std::array::from_fn(|i| lanes.map(|limbs| limbs[i])))
}

/// The x of a point, on the curve or not, and of a sum.
fn question(edges: &[[u64; 4]], rng: &mut Rng) -> [Field; 2] {
    [(); 2].map(|()| Field::reduced(if rng.below(2) == 0 { edges[rng.below(edges.len())] } else { words(rng) }))
}

/// Something that is told of a y, and whether it is so.
fn told(y: Field, rng: &mut Rng) -> (Told, bool) {
    // Another number of the same parity.
    let mut near = y.words();
    near[2] ^= 1;
    match rng.below(6) {
        0 => (Told::Nothing, true),
        1 => (Told::Odd(y.is_odd()), true),
        2 => (Told::Odd(!y.is_odd()), false),
        3 => (Told::All(y), true),
        4 => (Told::All(Field::reduced(near)), false),
        _ => (Told::All(-y), y.is_zero()),
    }
}

/// The equation is a polynomial in all its numbers, `inverse` among them. Of both kinds of answer: in how many lanes it
/// holds, and in how many it does not.
fn equations_at_the_bounds<V: Vector>(like: V, edges: &[[u64; 4]], rng: &mut Rng, answers: &mut [usize; 2]) {
    let asked: Vec<[Field; 2]> = (0..1 + rng.below(2 * V::LANES)).map(|_| question(edges, rng)).collect();
    for way in 0..2 {
        let base = Flat { x: extremes(like, rng), y: extremes(like, rng), negative: 0 };
        let key = Point { x: extremes(like, rng), y: extremes(like, rng), z: extremes(like, rng) };
        let [bx, by, kx, ky, kz] = [base.x, base.y, key.x, key.y, key.z].map(values);
        let lanes = asked.iter().skip(way * V::LANES).take(V::LANES);
        let solve = |lane: usize, inverse: Field| {
            let key = Jacobian { x: kx[lane], y: ky[lane], z: kz[lane] };
            solution(asked[way * V::LANES + lane], Affine { x: bx[lane], y: by[lane] }, key, inverse)
        };
        // Most lanes have an inverse that makes y a root of g, or its negative.
        let mut inverses = values(extremes(like, rng));
        let (mut statements, mut want, mut want_odd) = (vec![None; way * V::LANES], 0, 0);
        for (lane, &[_, sum_x]) in lanes.clone().enumerate() {
            let root = solve(lane, Field::ZERO).numbers[0].power(ROOT);
            if rng.below(4) > 0 {
                let by = solve(lane, Field::ONE).y;
                inverses[lane] = (if rng.below(2) == 0 { root } else { -root }) * by.inverse();
            }
            let Solution { numbers: [g, ..], y, sum_y } = solve(lane, inverses[lane]);
            let ((point, is_point), (sum, is_sum)) = (told(y, rng), told(sum_y, rng));
            let holds = y.square() == g && is_point && is_sum;
            want |= u8::from(holds) << lane;
            // R is the multiplied point in a statement that says nothing of its y.
            let r = if point == Told::Nothing { y } else { sum_y };
            want_odd |= u8::from(holds && r.is_odd()) << lane;
            answers[usize::from(holds)] += 1;
            statements.push(Some(Statement { claim: lane, point, sum_x, sum }));
        }
        let none = Statement { claim: 0, point: Told::Nothing, sum_x: Field::ZERO, sum: Told::Nothing };
        let statements: Vec<Statement> = statements.into_iter().map(|statement| statement.unwrap_or(none)).collect();
        let part: Vec<Question> = asked
            .iter()
            .enumerate()
            .take(statements.len())
            .map(|(at, &[x, _])| Question { x, bits: Bits::SOME, statements: at..at + 1 })
            .collect();
        let xs: Vec<Field> = lanes.clone().map(|&[x, _]| x).collect();
        let x = Fe::from_lanes(like, &std::array::from_fn(|lane| xs.get(lane).map_or([1; 4], |x| x.words())));
        let equation = Equation::of(&base, &key, &x);
        let Equation { g, d, v, w, h, n, step } = equation;
        let numbers = [g, d, v, w, h, n, step].map(values);
        for lane in 0..xs.len() {
            let wanted = solve(lane, inverses[lane]).numbers;
            assert_eq!(numbers.map(|number| number[lane]), wanted, "lane {lane}");
        }
        let inverse = unreduced(like, inverses, rng).loose();
        let (solved, line) = (equation.solved(&inverse), equation.line(&key, &inverse));
        let stated = Stated::<V>::new(&part, &statements, 0, way);
        let held = solved.holds(&base, Some(&line), &stated);
        assert_eq!((held.holds, held.holds & held.odd), (want, want_odd), "{statements:?}");
        // None has a second statement.
        assert_eq!(solved.holds(&base, None, &Stated::<V>::new(&part, &statements, 1, way)).holds, 0);
        // The largest limbs, whatever they stand for.
        let [inverse, y, r] = [(); 3].map(|()| extremes(like, rng));
        let line = equation.line(&key, &inverse.loose());
        let [sums, inverses, ys, rs] = [line.sum_y(&base, &y, &r), inverse, y, r].map(values);
        for lane in 0..xs.len() {
            let [_, d, v, w, h, ..] = solve(lane, inverses[lane]).numbers;
            let y2 = ky[lane] * kz[lane] * ys[lane] * (inverses[lane] * v * h).square();
            let slope = (by[lane] - y2) * d * inverses[lane] * w;
            assert_eq!(sums[lane], slope * (bx[lane] - rs[lane]) - by[lane], "lane {lane}");
        }
    }
}

#[test]
fn equations_hold_for_the_largest_limbs() {
    let (mut rng, edges, mut answers) = (Rng::new(23), edges::<Prime>(), [0; 2]);
    for _ in 0..rounds(300) {
        each_kind!(equations_at_the_bounds(&edges, &mut rng, &mut answers));
    }
    assert!(answers.iter().all(|&count| count > 60) || cfg!(miri), "{answers:?}: both answers are given");
}

/// `times` times the prime, more by `offset`, carried into limbs.
fn near_multiple(times: u64, offset: i64) -> [u64; 5] {
    let mut carry = i128::from(offset);
    let mut limbs = PRIME.map(|limb| {
        carry += i128::from(times * limb);
        let low = (carry & i128::from(FULL[0])) as u64;
        carry >>= 52;
        low
    });
    limbs[4] += (carry << 52) as u64;
    limbs
}

/// All that lies below 2^258 and near a multiple of the prime, as columns and as elements.
#[test]
fn multiples_of_the_prime_are_zero() {
    fn judge<V: Vector>(like: V, limbs: &[[u64; LANES_MAX]; 5], offsets: &[i64; LANES_MAX]) {
        let number =
            |offset: i64| if offset < 0 { -small::<Prime>(offset.unsigned_abs()) } else { small(offset as u64) };
        let want = offsets.map(number);
        let mask = |is: fn(&Field) -> bool| (0..V::LANES).fold(0, |mask, i| mask | u8::from(is(&want[i])) << i);
        let element = Fe::from_limbs(like, limbs);
        for element in [element, element.columns().carry()] {
            let reduced = element.reduced().to_lanes();
            assert_eq!(reduced[..V::LANES], want.map(Field::words)[..V::LANES], "{offsets:?}");
            assert_eq!(element.is_zero(), mask(|number| number.is_zero()), "{offsets:?}");
            assert_eq!(element.is_odd(), mask(|number| number.is_odd()), "{offsets:?}");
            let others = Fe::from_lanes(like, &want.map(Field::words));
            assert_eq!((element.equals(&others), others.equals(&element)), (V::ALL, V::ALL), "{offsets:?}");
            let next = Fe::from_lanes(like, &want.map(|number| (number + Field::ONE).words()));
            assert_eq!((element.equals(&next), next.equals(&element)), (0, 0), "{offsets:?}");
        }
    }
    let fold = 0x1_0000_03d1; // What 2^256 is more than the prime.
    for times in 0..=4 {
        for offsets in [
            [0, 1, 2, 3, 4, 5, 6, 7],
            [fold - 2, fold - 1, fold, fold + 1, 2 * fold - 1, 2 * fold, 3 * fold - 1, 3 * fold],
            [0, -1, -2, -3, -fold, -fold - 1, -2 * fold, 1 - fold],
        ] {
            // Below zero there is nothing, and four times the prime reaches nearly to 2^258.
            let offsets = offsets.map(|offset: i64| if times == 0 { offset.abs() } else { offset });
            let lanes = offsets.map(|offset| near_multiple(times, offset));
            let limbs: [[u64; LANES_MAX]; 5] = std::array::from_fn(|limb| lanes.map(|limbs| limbs[limb]));
            assert!(lanes.iter().all(|limbs| limbs[4] <= FULL[4]), "{times} times, {offsets:?}");
            // A kind with fewer lanes than eight meets the first offsets alone: each is the first once.
            for turn in 0..LANES_MAX {
                let turned = |words: [u64; LANES_MAX]| std::array::from_fn(|lane| words[(lane + turn) % LANES_MAX]);
                let offsets = std::array::from_fn(|lane| offsets[(lane + turn) % LANES_MAX]);
                each_kind!(judge(&limbs.map(turned), &offsets));
            }
        }
    }
}

/// Scalars near the middle between points of the lattice that the key's scalar is cut with: their halves are longest.
pub(super) fn scalars_with_longest_halves() -> Vec<Scalar> {
    const A1: Scalar = Scalar::constant([0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd, 0, 0]);
    const A2: Scalar = Scalar::constant([0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 1, 0]);
    const B1: Scalar = Scalar::constant([0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828, 0, 0]);
    let half = |a: Scalar| {
        let w = a.words(); // The number's half, not the residue's.
        Scalar::constant([w[0] >> 1 | w[1] << 63, w[1] >> 1 | w[2] << 63, w[2] >> 1, 0])
    };
    assert_eq!(A1, LAMBDA * B1, "a point of the lattice");
    assert_eq!(A2, -LAMBDA * A1, "another");
    let mut scalars = Vec::new();
    for signs in 0..4 {
        let sign = |bit: usize, number: Scalar| if signs >> bit & 1 == 1 { -number } else { number };
        // Half of each of the two vectors, (a1, b1) and (a2, a1), where b1 is negative.
        let one = sign(0, half(A1)) + sign(1, half(A2));
        let lambda = sign(0, -half(B1)) + sign(1, half(A1));
        for offset in 0..25u64 {
            let near = |number: Scalar, by: u64| number + small(by) - small(2);
            let short = near(one, offset % 5) + LAMBDA * near(lambda, offset / 5);
            scalars.push(short + short + Scalar::ONE + LAMBDA); // What is cut is half of the scalar less one and lambda.
        }
    }
    scalars
}

#[test]
fn longest_halves() {
    let mut recoded = Recoded::ONES;
    for (at, scalar) in scalars_with_longest_halves().into_iter().enumerate() {
        let lane = at % 25 % LANES_MAX;
        recoded.set(lane, scalar, scalar);
        let [first, second] = &recoded.key;
        assert_eq!(sum_of(first, lane, KEY_BITS) + LAMBDA * sum_of(second, lane, KEY_BITS), scalar);
        // Halves are below 2^128: of the 130 bits, the highest two are 01 or 10.
        for half in [first, second] {
            let digits = &half[KEY_WINDOWS - 1];
            assert!(digits.places[lane] < 1 << (KEY_BITS - 2), "{at}: {digits:?}");
        }
    }
}
